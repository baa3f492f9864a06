"""What a run will take before it starts: steps, time, memory, traffic."""
