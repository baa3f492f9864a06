"""The league: every method of a task on every row of data, and its pages."""
