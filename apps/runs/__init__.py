"""Runs of jobs: one, or many side by side."""
