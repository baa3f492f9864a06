"""Averages of models: weights, bounds on influence, one streaming pass."""
