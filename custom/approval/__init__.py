"""What a participant lets jobs do: configurations that it has approved, and settings within its limits.

A deployed job is two JSON configurations and one document of settings. The configurations, settings apart, must be
ones that the participant has approved (:mod:`.approved`). The settings are data, checked against the participant's own
model of them and its own limits (:mod:`.limits`). Nothing of a job is built, run or looked up here.
"""
