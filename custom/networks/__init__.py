"""The networks: how they are built, where they compute, and the weights that they start with."""

from .building import build_classifier, build_network

__all__ = ["build_classifier", "build_network"]
