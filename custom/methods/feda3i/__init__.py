"""FedA³I (Wu et al., AAAI 2024): what a site's contours reveal, and what the server concludes."""
