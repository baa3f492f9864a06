"""The methods, a folder each: their formulas, without NVFlare."""
