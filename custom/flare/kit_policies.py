"""Whether a participant's policies are in force on its kit: one check for `deploy check` and for every start.

Each rule reads what NVFlare would read. A rule that cannot be read is broken. Nothing is changed, nothing leaves.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST
from nvflare.fuel.sec.authz import FalseEvaluator, TrueEvaluator, parse_policy_config
from nvflare.security.security import COMMAND_CATEGORIES, CommandCategory

from ...transforms.errors import DataError
from ..approval.approved import ApprovedJobs, installed_version, read_approved
from ..approval.participants import Role
from .kit_files import START_CHECK_FILE, KitFiles, components_of
from .private_log import keeps_names_private

START_CHECK = {"id": "fedannot_start_check", "path": "fedannot.custom.flare.start_check.StartCheck", "args": {}}
_FILTER = "fedannot.custom.flare.outbound_filter.OutboundFilter"
_JOB_GATE = "fedannot.custom.flare.job_gate.JobGate"
# What stands between a submitted job and everything of NVFlare that would parse or run it.
_GATES: dict[Role, dict[str, str]] = {
    "site": {
        "site_gate": "fedannot.custom.flare.site_gate.SiteGate",
        "app_deployer": "fedannot.custom.flare.approved_jobs.ApprovedDeployer",
    },
    "server": {"job_gate": _JOB_GATE},
}
# Components of NVFlare's that send logs, or write what others send under names of their choice.
_LOG_COMPONENTS = ("SiteLogStreamer", "JobLogStreamer", "JobLogReceiver")
# Keys with which NVFlare builds a component as it is named; "disabled" and the like are none of them.
_COMPONENT_KEYS = frozenset({"id", "path", "args"})


class Policy(StrEnum):
    """A rule of the participant's, by the name that a person sees."""

    START_CHECK = "check at start"
    APPROVED_JOBS = "approved jobs"
    ALLOW_LIST = "allow-list"
    NO_CODE = "code in jobs"
    NO_FILES = "files and logs"
    OPERATORS = "who operates it"
    LOGS = "logs"
    PRIVATE_LOG = "private log"
    OUTBOUND_FILTER = "outbound filter"


# What nobody may do from outside, by what NVFlare calls the right.
_REFUSED_RIGHTS: dict[Policy, tuple[str, ...]] = {
    Policy.NO_CODE: ("byoc", "server-predeployed-flwr"),
    Policy.NO_FILES: (
        *(right for right, category in COMMAND_CATEGORIES.items() if category == CommandCategory.SHELL_COMMANDS),
        "configure_job_log",
        "configure_site_log",
    ),
}
# What an operator may do: the group of rights, and each of them.
_OPERATING = (
    "operate",
    *(right for right, category in COMMAND_CATEGORIES.items() if category == CommandCategory.OPERATE),
)
_OPERATOR, _OWN_OPERATOR = "project_admin", "org_admin"
# How a right is given to a site's own organisation, or to nobody.
_OWN_SITE = ("o:site", "org:site", "none", "no")


@dataclass(frozen=True)
class KitFault:
    """A policy that is not in force.

    Attributes:
        policy: which.
        found: what was found instead, as the text of an error.
        of_own_policies: whether the participant's own policies have it, so that preparing the kit again keeps it.
    """

    policy: Policy
    found: str
    of_own_policies: bool = False


def kit_faults(folder: Path) -> list[KitFault]:
    """Return what is not in force on a kit; empty where everything is.

    Args:
        folder: the kit of a server or of a site.

    Raises:
        DataError: if it is no such kit.
    """
    kit = KitFiles.open(folder)
    faults = []
    for rule, policies in _RULES:
        try:
            faults += list(rule(kit))
        except DataError as error:
            faults += [KitFault(policy, str(error)) for policy in policies]
        except Exception as error:
            # A value of another type, where NVFlare may or may not stumble.
            result = f"cannot be assessed, since a file of local has other values than expected: {error!r}"
            faults += [KitFault(policy, result) for policy in policies]
    return faults


def _start_check_faults(kit: KitFiles) -> Iterator[KitFault]:
    if START_CHECK not in components_of(kit.document("start check")):
        yield KitFault(
            Policy.START_CHECK, f"local/{START_CHECK_FILE} does not name it, so that one file switches it off"
        )


def _job_faults(kit: KitFiles) -> Iterator[KitFault]:
    policy = Policy.APPROVED_JOBS
    for values in kit.merged():
        built = {str(entry["id"]): entry for entry in components_of(values) if _is_built_as_named(entry)}
        for name, path in _GATES[kit.role].items():
            if name not in built or built[name]["path"] != path:
                yield KitFault(policy, f"any job runs here, whatever it asks for: no component {name}")
                return
            config_folder = built[name].get("args", {}).get("config_folder", "local")
            if path == _JOB_GATE and (kit.folder / str(config_folder)).resolve() != kit.local.resolve():
                yield KitFault(policy, f"{name} looks into {config_folder}, which is not this kit's folder local")
                return
    yield from _approval_faults(kit)


def _approval_faults(kit: KitFiles) -> Iterator[KitFault]:
    # The settings of all methods; not before a kit is looked at.
    from ..approval.limits import read_limits  # noqa: PLC0415

    approved = read_approved(kit.local)
    read_limits(kit.local)
    if approved is None:
        yield KitFault(Policy.APPROVED_JOBS, "none, so that no job runs here")
    elif approved.fedannot != installed_version():
        result = f"those of fedannot {approved.fedannot}, but {installed_version()} is installed"
        yield KitFault(Policy.APPROVED_JOBS, result)


def _is_built_as_named(entry: Mapping[str, Any]) -> bool:
    """Whether NVFlare builds what a component's path names, with what its arguments say."""
    return {"id", "path"} <= set(entry) <= _COMPONENT_KEYS and isinstance(entry.get("args", {}), Mapping)


def _allow_list_faults(kit: KitFiles) -> Iterator[KitFault]:
    resources = kit.document("resources")
    listed = {str(entry) for entry in resources.get("class_allow_list", DEFAULT_CLASS_ALLOW_LIST)}
    needed = set((_approved(kit) or ApprovedJobs(fedannot="", installed=())).classes)
    if "*" in listed or resources.get("class_list_enforcement_mode", "enforce") != "enforce":
        yield KitFault(Policy.ALLOW_LIST, "jobs may use any installed class")
    elif missing := sorted(needed - listed):
        yield KitFault(Policy.ALLOW_LIST, f"approved jobs may not use {', '.join(missing[:3])}")
    elif more := sorted(listed - needed):
        result = f"{len(more)} entries that no approved job needs, {more[0]} among them"
        yield KitFault(Policy.ALLOW_LIST, result)


def _approved(kit: KitFiles) -> ApprovedJobs | None:
    try:
        return read_approved(kit.local)
    except DataError:
        return None


def _right_faults(kit: KitFiles) -> Iterator[KitFault]:
    policy, error = parse_policy_config(kit.document("rights"), COMMAND_CATEGORIES)
    for rule, rights in _REFUSED_RIGHTS.items():
        if policy is None:
            yield KitFault(rule, f"authorization.json: {error}")
        elif allowed := sorted({role for role in policy.get_roles() for right in rights if _may(policy, role, right)}):
            yield KitFault(rule, f"open to {', '.join(allowed)}")


def _operator_faults(kit: KitFiles) -> Iterator[KitFault]:
    """Yield who could restart, stop or shut out a participant and is not its operator.

    At the server that is the project administrator alone, whatever organisation others are of. At a site it is also an
    administrator of the site's own organisation.
    """
    policy, error = parse_policy_config(kit.document("rights"), COMMAND_CATEGORIES)
    if policy is None:
        yield KitFault(Policy.OPERATORS, f"authorization.json: {error}")
        return
    others = {role for role in policy.get_roles() if role != _OPERATOR}
    allowed = sorted({role for role in others for right in _OPERATING if _may(policy, role, right)})
    is_own_site = kit.role == "site" and allowed == [_OWN_OPERATOR] and _is_own_sites(policy, _OWN_OPERATOR)
    if allowed and not is_own_site:
        yield KitFault(Policy.OPERATORS, f"open to {', '.join(allowed)}, who could restart or stop it")


def _may(policy: Any, role: str, right: str) -> bool:
    """Whether anybody of a role has a right, of whatever organisation, under whatever name, be it with an own job."""
    conditions = policy.role_right_map.get(f"{role}:*") or policy.role_right_map.get(f"{role}:{right}")
    if not conditions or any(isinstance(condition, TrueEvaluator) for condition in conditions.blocked_conditions):
        return False
    allowed = conditions.allowed_conditions
    return not allowed or any(not isinstance(condition, FalseEvaluator) for condition in allowed)


def _is_own_sites(policy: Any, role: str) -> bool:
    """Whether somebody of a role operates participants of the same organisation alone, where any."""
    rights = [policy.role_right_map.get(f"{role}:{right}") for right in ("*", *_OPERATING)]
    return all(conditions is None or conditions.exp in _OWN_SITE for conditions in rights)


def _log_faults(kit: KitFiles) -> Iterator[KitFault]:
    merged = kit.merged()
    if any(
        values.get("allow_log_streaming") is not False
        for values in (kit.document("resources"), kit.found_by_name(), *merged)
    ):
        yield KitFault(Policy.LOGS, "are sent, or written as others send them: allow_log_streaming is not false")
        return
    classes = {str(entry.get(key)) for values in merged for entry in components_of(values) for key in _CLASS_KEYS}
    if named := sorted(name for name in classes if name.endswith(_LOG_COMPONENTS)):
        yield KitFault(Policy.LOGS, f"are sent, or written as others send them: by {named[0]}")


# NVFlare takes the first of these that a component has.
_CLASS_KEYS = ("path", "class_path", "name")


def _private_log_faults(kit: KitFiles) -> Iterator[KitFault]:
    if not keeps_names_private(kit.document("logs")):
        yield KitFault(Policy.PRIVATE_LOG, "logs that NVFlare stores or returns may hold names of files")


def _filter_faults(kit: KitFiles) -> Iterator[KitFault]:
    if kit.role == "server":
        return
    privacy = kit.document("privacy")
    scopes = [scope for scope in privacy.get("scopes") or [] if isinstance(scope, Mapping)]
    open_ones = [
        str(scope.get("name"))
        for scope in scopes
        if not any(_filters_results(entry) for entry in scope.get("task_result_filters") or [])
    ]
    if open_ones:
        result = f"none in the scope {', '.join(open_ones)}, which a job could name"
        yield KitFault(Policy.OUTBOUND_FILTER, result, of_own_policies=True)
    elif privacy.get("default_scope") not in [scope.get("name") for scope in scopes]:
        yield KitFault(Policy.OUTBOUND_FILTER, "only jobs that have it use the outbound filter")


def _filters_results(entry: Any) -> bool:
    """Whether an entry of a scope puts our filter at the exit."""
    return (
        isinstance(entry, Mapping)
        and entry.get("path") == _FILTER
        and set(entry) <= {"path", "args", "direction"}
        and str(entry.get("direction") or "out").lower() in ("out", "inout")
    )


_RULES: tuple[tuple[Callable[[KitFiles], Iterator[KitFault]], tuple[Policy, ...]], ...] = (
    (_start_check_faults, (Policy.START_CHECK,)),
    (_job_faults, (Policy.APPROVED_JOBS,)),
    (_allow_list_faults, (Policy.ALLOW_LIST,)),
    (_right_faults, (Policy.NO_CODE, Policy.NO_FILES)),
    (_operator_faults, (Policy.OPERATORS,)),
    (_log_faults, (Policy.LOGS,)),
    (_private_log_faults, (Policy.PRIVATE_LOG,)),
    (_filter_faults, (Policy.OUTBOUND_FILTER,)),
)
