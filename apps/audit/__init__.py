"""The audit for people: pages, review on this machine, and what becomes of decisions."""
