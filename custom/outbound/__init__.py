"""What leaves a site: fields, the registry that checks them, the reports, and noise for privacy."""
