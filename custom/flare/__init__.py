"""NVFlare components: controllers, aggregator, executor and filter. They translate messages and hold no mathematics."""
