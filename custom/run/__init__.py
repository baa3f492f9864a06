"""A run: the course of rounds, a site's tasks, and what is left behind: state, records, summary."""
