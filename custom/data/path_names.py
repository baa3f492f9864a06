"""Texts of a job that become a part of a path: ids of jobs and plain names, which lead to no other folder."""

import re

# What NVFlare names jobs.
JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def is_job_id(text: str) -> bool:
    """Return whether a text has the form of NVFlare's job ids."""
    return JOB_ID.fullmatch(text) is not None


def is_plain_name(text: str) -> bool:
    """Return whether a text is a name without any folder in it."""
    return PLAIN_NAME.fullmatch(text) is not None
