"""What a person sees of runs: outputs, tables, pictures, lists for data managers."""
