"""What a federation of hospitals needs besides the jobs: a job that can be submitted, kits made ready, and a check."""
