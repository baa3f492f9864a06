"""What jobs and accounts may do with the participant's kit: approved jobs, classes, rights, logs, and what leaves."""

from collections.abc import Iterator
from typing import Any

from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST
from nvflare.fuel.sec.authz import FalseEvaluator, TrueEvaluator, parse_policy_config
from nvflare.security.security import COMMAND_CATEGORIES, CommandCategory

from ...custom.approval.approved import ApprovedJobs, installed_version, read_approved
from ...custom.approval.limits import Limits, Minimum, read_limits
from ...transforms.errors import DataError
from .check_points import Point, State
from .kit import Kit

_FILTER = "fedannot.custom.flare.outbound_filter.OutboundFilter"
# What stands between a submitted job and everything of NVFlare that would parse or run it.
_GATES = {
    "site": {
        ("site_gate", "fedannot.custom.flare.site_gate.SiteGate"),
        ("app_deployer", "fedannot.custom.flare.approved_jobs.ApprovedDeployer"),
    },
    "server": {("job_gate", "fedannot.custom.flare.job_gate.JobGate")},
}
# Components of NVFlare's that send logs, or write what others send under names of their choice.
_LOG_COMPONENTS = ("SiteLogStreamer", "JobLogReceiver")
# What nobody may do from outside, by what NVFlare calls the right.
_REFUSED_RIGHTS = {
    "code in jobs": ("byoc", "server-predeployed-flwr"),
    "files and logs": (
        *(right for right, category in COMMAND_CATEGORIES.items() if category == CommandCategory.SHELL_COMMANDS),
        "configure_job_log",
        "configure_site_log",
    ),
}

_OPERATE = CommandCategory.OPERATE
_OPERATOR, _OWN_OPERATOR = "project_admin", "org_admin"
# How a right is given to a site's own organisation, or to nobody.
_OWN_SITE = ("o:site", "org:site", "none", "no")


def check_approved_jobs(kit: Kit) -> Iterator[Point]:
    """Are jobs looked at before anything of them is parsed, and which are approved?"""
    what, prepare = "approved jobs", f"fedannot deploy prepare {kit.folder}"
    components = kit.effective("resources.json").get("components", [])
    if _GATES[kit.role] - {(entry.get("id"), entry.get("path")) for entry in components}:
        yield Point(what, State.PROBLEM, "any job runs here, whatever it asks for", prepare)
        return
    try:
        approved = read_approved(kit.local)
        read_limits(kit.local)
    except DataError as error:
        yield Point(what, State.PROBLEM, str(error), prepare)
        return
    if approved is None:
        yield Point(what, State.PROBLEM, "none, so that no job runs here", prepare)
    elif approved.fedannot != installed_version():
        found = f"those of fedannot {approved.fedannot}, but {installed_version()} is installed"
        yield Point(what, State.PROBLEM, found, prepare)
    else:
        others = ", ".join(f"{job.name} ({job.digest[:12]})" for job in approved.others)
        besides = f", and {others}" if others else ""
        yield Point(what, State.READY, f"the {len(approved.installed)} of fedannot {approved.fedannot}{besides}")


def check_minimum(kit: Kit) -> Iterator[Point]:
    """Of how few sites, patients and samples may a result be?"""
    try:
        limits = read_limits(kit.local)
    except DataError:
        # Said with the approved jobs.
        return
    given, usual = limits.smallest.model_dump(), Minimum().model_dump()
    lower = [f"{key} {given[key]}, usually {usual[key]}" for key in usual if given[key] < usual[key]]
    if limits.largest_share > Limits().largest_share:
        lower.append(f"largest_share {limits.largest_share:g}, usually {Limits().largest_share:g}")
    if lower:
        remedy = "Is that meant, as between two hospitals? Else mend limits.json in site.yaml or server.yaml."
        yield Point("minimum", State.WARNING, f"a result may be of few: {'; '.join(lower)}", remedy)
    else:
        found = f"models of {limits.smallest.min_sites} sites, updates of {limits.smallest.patients} patients or more"
        yield Point("minimum", State.READY, found)


def check_allow_list(kit: Kit) -> Iterator[Point]:
    """May jobs use the classes that approved jobs name, and no others?"""
    what, prepare = "allow-list", f"fedannot deploy prepare {kit.folder}"
    resources = kit.effective("resources.json")
    listed = {str(entry) for entry in resources.get("class_allow_list", DEFAULT_CLASS_ALLOW_LIST)}
    needed = set((_approved(kit) or ApprovedJobs(fedannot="", installed=())).classes)
    if "*" in listed or resources.get("class_list_enforcement_mode") == "warn":
        yield Point(what, State.PROBLEM, "jobs may use any installed class", prepare)
    elif missing := sorted(needed - listed):
        yield Point(what, State.PROBLEM, f"approved jobs may not use {', '.join(missing[:3])}", prepare)
    elif more := sorted(listed - needed):
        found = f"{len(more)} entries that no approved job needs, {more[0]} among them"
        yield Point(what, State.PROBLEM, found, prepare)
    else:
        yield Point(what, State.READY, f"the {len(listed)} classes that approved jobs name")


def check_rights(kit: Kit) -> Iterator[Point]:
    """Can an account from outside bring code, read files here, or change what logs hold?"""
    prepare = f"fedannot deploy prepare {kit.folder}"
    config = kit.effective("authorization.json")
    policy, error = parse_policy_config(config, COMMAND_CATEGORIES)
    for what, rights in _REFUSED_RIGHTS.items():
        if policy is None:
            yield Point(what, State.PROBLEM, f"authorization.json: {error}", prepare)
            continue
        allowed = sorted({role for role in policy.get_roles() for right in rights if _may(policy, role, right)})
        if allowed:
            yield Point(what, State.PROBLEM, f"open to {', '.join(allowed)}", prepare)
        else:
            yield Point(what, State.READY, "closed to everybody")


def check_operators(kit: Kit) -> Iterator[Point]:
    """Can somebody restart, stop or shut out a participant who is not its operator?

    At the server that is the project administrator alone, whatever organisation others are of. At a site it is also an
    administrator of the site's own organisation.
    """
    what = "who operates it"
    policy, error = parse_policy_config(kit.effective("authorization.json"), COMMAND_CATEGORIES)
    if policy is None:
        yield Point(what, State.PROBLEM, f"authorization.json: {error}", f"fedannot deploy prepare {kit.folder}")
        return
    rights = ["operate", *(right for right, category in COMMAND_CATEGORIES.items() if category == _OPERATE)]
    others = {role for role in policy.get_roles() if role != _OPERATOR}
    allowed = sorted({role for role in others for right in rights if _may(policy, role, right)})
    if kit.role == "site" and allowed == [_OWN_OPERATOR] and _is_own_sites(policy, _OWN_OPERATOR, rights):
        yield Point(what, State.READY, f"{_OPERATOR}, and {_OWN_OPERATOR} of its own organisation")
    elif allowed:
        found = f"open to {', '.join(allowed)}, who could restart or stop it"
        yield Point(what, State.PROBLEM, found, f"fedannot deploy prepare {kit.folder}")
    else:
        yield Point(what, State.READY, f"{_OPERATOR} alone")


def _may(policy: Any, role: str, right: str) -> bool:
    """Whether anybody of a role has a right, of whatever organisation, under whatever name, be it with an own job."""
    conditions = policy.role_right_map.get(f"{role}:*") or policy.role_right_map.get(f"{role}:{right}")
    if not conditions or any(isinstance(condition, TrueEvaluator) for condition in conditions.blocked_conditions):
        return False
    allowed = conditions.allowed_conditions
    return not allowed or any(not isinstance(condition, FalseEvaluator) for condition in allowed)


def _is_own_sites(policy: Any, role: str, rights: list[str]) -> bool:
    """Whether somebody of a role has rights at participants of the same organisation alone, where any."""
    found = [policy.role_right_map.get(f"{role}:{right}") for right in ("*", *rights)]
    return all(conditions is None or conditions.exp in _OWN_SITE for conditions in found)


def check_exits(kit: Kit) -> Iterator[Point]:
    """Do logs stay, and is there a filter at every exit that no job can leave out?"""
    prepare = f"fedannot deploy prepare {kit.folder}"
    resources = kit.effective("resources.json")
    paths = [str(entry.get("path")) for entry in resources.get("components", [])]
    if resources.get("allow_log_streaming", True) or any(path.endswith(_LOG_COMPONENTS) for path in paths):
        yield Point("logs", State.PROBLEM, "are sent, or written as others send them", prepare)
    else:
        yield Point("logs", State.READY, "stay here")
    if kit.role == "server":
        return
    privacy = kit.effective("privacy.json")
    scopes = [scope for scope in privacy.get("scopes", []) if isinstance(scope, dict)]
    names = [str(scope.get("name")) for scope in scopes]
    open_ones = [
        str(scope.get("name"))
        for scope in scopes
        if _FILTER not in [entry.get("path") for entry in scope.get("task_result_filters", [])]
    ]
    if open_ones:
        found = f"none in the scope {', '.join(open_ones)}, which a job could name"
        yield Point("outbound filter", State.PROBLEM, found, f"Take the scope out of site.yaml, then: {prepare}")
    elif privacy.get("default_scope") not in names:
        yield Point("outbound filter", State.PROBLEM, "only jobs that have it use the outbound filter", prepare)
    else:
        yield Point("outbound filter", State.READY, "whatever a job says, only registered fields leave")


def _approved(kit: Kit) -> ApprovedJobs | None:
    try:
        return read_approved(kit.local)
    except DataError:
        return None
