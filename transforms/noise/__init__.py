"""Annotations made worse: contours, missing lesions, protocols, wrong classes."""
