"""The check of a federation's data before anybody trains: what is wrong, in which file, and what to do about it."""
