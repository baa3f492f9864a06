"""How single annotators of a site annotate: their bias, how far they agree, and who deviates; it stays at the site."""
