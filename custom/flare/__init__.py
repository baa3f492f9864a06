"""NVFlare components: a controller, an executor, filters, a swarm. They translate messages and hold no mathematics."""
