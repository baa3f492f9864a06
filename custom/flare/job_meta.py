"""What NVFlare keeps of a submitted job beside it."""

import json
from pathlib import Path

from nvflare.apis.job_def import ALL_SITES, SERVER_SITE_NAME


def sites_of_job(meta_file: Path) -> set[str]:
    """Return the sites that a job names; empty where it names none, or was not submitted but simulated.

    Args:
        meta_file: ``meta.json`` of the job in a participant's workspace.
    """
    if not meta_file.is_file():
        return set()
    deploy_map = json.loads(meta_file.read_text(encoding="utf-8")).get("deploy_map") or {}
    named = {site for sites in deploy_map.values() for site in sites if isinstance(site, str)}
    return {site for site in named if site not in (SERVER_SITE_NAME, ALL_SITES)}
