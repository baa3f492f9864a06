"""Comparisons whose figures the documentation reports: data, arms and settings of every row, and the tables."""
