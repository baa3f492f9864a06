"""The annotation audit at a site: what looks wrong in which case, how sure that is, and what a reviewer decides."""
