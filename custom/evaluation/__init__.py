"""Scores of a model, for segmentation and for classification."""
