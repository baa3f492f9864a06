"""The annotation audit at a site: what looks wrong in which case, how probably, and what a reviewer decides."""
