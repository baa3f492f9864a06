"""Mixtures of Gaussians, fitted by expectation maximisation to many data sets from many starts at once."""
