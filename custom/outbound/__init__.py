"""What leaves a site: the registry, the reports, and noise for privacy."""
