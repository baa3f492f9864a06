"""Copies of a federation with other annotations."""
