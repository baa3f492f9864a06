"""Typed records of a run, which JSON holds."""
