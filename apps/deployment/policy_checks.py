"""What jobs may do with the participant's kit: classes, code, and what leaves."""

from collections.abc import Iterator

from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST

from .check_points import Point, State
from .kit import Kit

_OUR_CLASSES = (
    "fedannot.custom.flare.executor.SegmentationExecutor",
    "fedannot.custom.networks.build_network",
    "nvflare.app_opt.pt.file_model_persistor.PTFileModelPersistor",
)
_FILTER = "fedannot.custom.flare.outbound_filter.OutboundFilter"


def check_allow_list(kit: Kit) -> Iterator[Point]:
    """May jobs use the classes of fedannot, and no others?"""
    resources = kit.effective("resources.json")
    allowed = [str(entry) for entry in resources.get("class_allow_list", DEFAULT_CLASS_ALLOW_LIST)]
    refused = [path for path in _OUR_CLASSES if not any(_is_listed(path, entry) for entry in allowed)]
    prepare = f"fedannot deploy prepare {kit.folder}"
    if "*" in allowed or resources.get("class_list_enforcement_mode") == "warn":
        yield Point("allow-list", State.WARNING, "jobs may use any installed class", f"{prepare}, after removing '*'.")
    elif refused:
        yield Point("allow-list", State.PROBLEM, f"jobs may not use {', '.join(refused)}", prepare)
    else:
        yield Point("allow-list", State.READY, "fedannot's classes and NVFlare's own")


def _is_listed(path: str, entry: str) -> bool:
    return path == entry or path.startswith(entry if entry.endswith(".") else f"{entry}.")


def check_policies(kit: Kit) -> Iterator[Point]:
    """May jobs carry code, and is there a filter at the exit that no job can leave out?"""
    prepare = f"fedannot deploy prepare {kit.folder}"
    rights = kit.effective("authorization.json").get("permissions", {}).get("lead", {})
    if rights == "any" or (isinstance(rights, dict) and rights.get("byoc", "none") != "none"):
        yield Point("code in jobs", State.WARNING, "the researcher's jobs may bring code and run it here", prepare)
    else:
        yield Point("code in jobs", State.READY, "refused")
    if kit.role == "server":
        return
    privacy = kit.effective("privacy.json")
    scopes = {scope.get("name"): scope for scope in privacy.get("scopes", []) if isinstance(scope, dict)}
    default = scopes.get(privacy.get("default_scope"), {})
    if _FILTER in [entry.get("path") for entry in default.get("task_result_filters", [])]:
        yield Point("outbound filter", State.READY, "whatever a job says, only registered fields leave")
    else:
        yield Point("outbound filter", State.WARNING, "only jobs that have it use the outbound filter", prepare)
