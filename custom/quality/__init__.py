"""What a site's annotations reveal of their own quality, and what the server concludes from it."""
