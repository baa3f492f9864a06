"""Kinds of problems that an audit looks for, a module each."""
