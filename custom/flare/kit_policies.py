"""Whether a participant's policies are in force on its kit: one check for `deploy check` and for every start.

Each rule reads what NVFlare would read. A rule that cannot be read is broken. Nothing is changed, nothing leaves.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
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


class KitProblem(StrEnum):
    """What is wrong with a policy, in the few words of an error; behind each the values that go with it.

    Attributes:
        UNREADABLE: a file cannot be read: ``error``.
        NOT_ASSESSED: a file of ``local`` has other values than expected: ``error``.
        CHECK_NOT_NAMED: a ``file`` does not name the check at the start.
        ANY_JOB: no ``component`` looks at jobs.
        OTHER_FOLDER: a ``component`` looks into another ``folder`` than the kit's.
        NO_JOB: no job is approved.
        OTHER_VERSION: jobs of the version ``approved`` are, but another is ``installed``.
        ANY_CLASS: jobs may use any installed class.
        CLASSES_MISSING: approved jobs may not use some ``classes`` that they need.
        CLASSES_NOT_NEEDED: a ``number`` of listed classes is not needed, ``first`` among them.
        OPEN_TO: some ``roles`` have rights that nobody is to have.
        OPERATED_BY: some ``roles`` could restart or stop the participant.
        LOGS_SENT: a ``setting`` lets logs be sent, or written as others send them.
        LOGS_SENT_BY: as above, a ``component``.
        LOGS_WITH_NAMES: logs that NVFlare stores or returns may hold names of files.
        SCOPES_WITHOUT_FILTER: some ``scopes`` have no outbound filter, and a job could name one.
        NO_DEFAULT_FILTER: only jobs that have it use the outbound filter.
        NOT_SECURE: an ``argument`` is missing without which nobody is asked for rights.
        LOGS_SENT_BY_ARGUMENT: an ``argument`` of the start script lets logs be sent.
        NO_LOG_LEVEL: a ``variable`` holds a ``value`` that is no level, so that other logs are written.
    """

    UNREADABLE = "cannot be read"
    NOT_ASSESSED = "cannot be assessed"
    CHECK_NOT_NAMED = "not named"
    ANY_JOB = "any job runs"
    OTHER_FOLDER = "of another folder"
    NO_JOB = "none"
    OTHER_VERSION = "of another version"
    ANY_CLASS = "any class"
    CLASSES_MISSING = "classes missing"
    CLASSES_NOT_NEEDED = "classes not needed"
    OPEN_TO = "open"
    OPERATED_BY = "operated by others"
    LOGS_SENT = "are sent"
    LOGS_SENT_BY = "are sent by a component"
    LOGS_WITH_NAMES = "others name files"
    SCOPES_WITHOUT_FILTER = "missing in scopes"
    NO_DEFAULT_FILTER = "not the default"
    NOT_SECURE = "nobody is asked"
    LOGS_SENT_BY_ARGUMENT = "are sent by an argument"
    NO_LOG_LEVEL = "no level"


@dataclass(frozen=True)
class KitFault:
    """A policy that is not in force.

    Attributes:
        policy: which.
        problem: what was found instead.
        values: that go with it, by name; see :class:`KitProblem`.
        of_own_policies: whether the participant's own policies have it, so that preparing the kit again keeps it.
    """

    policy: Policy
    problem: KitProblem
    values: Mapping[str, str] = field(default_factory=dict)
    of_own_policies: bool = False

    def __str__(self) -> str:
        """Return policy, problem and values, for an error."""
        values = ", ".join(f"{name} {value}" for name, value in self.values.items())
        return f"{self.policy}: {self.problem}{f' ({values})' if values else ''}"


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
            faults += [KitFault(policy, KitProblem.UNREADABLE, {"error": str(error)}) for policy in policies]
        except Exception as error:
            # A value of another type, where NVFlare may or may not stumble.
            faults += [KitFault(policy, KitProblem.NOT_ASSESSED, {"error": repr(error)}) for policy in policies]
    return faults


def _start_check_faults(kit: KitFiles) -> Iterator[KitFault]:
    if START_CHECK not in components_of(kit.document("start check")):
        yield KitFault(Policy.START_CHECK, KitProblem.CHECK_NOT_NAMED, {"file": f"local/{START_CHECK_FILE}"})


def _job_faults(kit: KitFiles) -> Iterator[KitFault]:
    policy = Policy.APPROVED_JOBS
    for values in kit.merged():
        built = {str(entry["id"]): entry for entry in components_of(values) if _is_built_as_named(entry)}
        for name, path in _GATES[kit.role].items():
            if name not in built or built[name]["path"] != path:
                yield KitFault(policy, KitProblem.ANY_JOB, {"component": name})
                return
            config_folder = built[name].get("args", {}).get("config_folder", "local")
            if path == _JOB_GATE and (kit.folder / str(config_folder)).resolve() != kit.local.resolve():
                yield KitFault(policy, KitProblem.OTHER_FOLDER, {"component": name, "folder": str(config_folder)})
                return
    yield from _approval_faults(kit)


def _approval_faults(kit: KitFiles) -> Iterator[KitFault]:
    # The settings of all methods; not before a kit is looked at.
    from ..approval.limits import read_limits  # noqa: PLC0415

    approved = read_approved(kit.local)
    read_limits(kit.local)
    if approved is None:
        yield KitFault(Policy.APPROVED_JOBS, KitProblem.NO_JOB)
    elif approved.fedannot != installed_version():
        versions = {"approved": approved.fedannot, "installed": installed_version()}
        yield KitFault(Policy.APPROVED_JOBS, KitProblem.OTHER_VERSION, versions)


def _is_built_as_named(entry: Mapping[str, Any]) -> bool:
    """Whether NVFlare builds what a component's path names, with what its arguments say."""
    return {"id", "path"} <= set(entry) <= _COMPONENT_KEYS and isinstance(entry.get("args", {}), Mapping)


def _allow_list_faults(kit: KitFiles) -> Iterator[KitFault]:
    resources = kit.document("resources")
    listed = {str(entry) for entry in resources.get("class_allow_list", DEFAULT_CLASS_ALLOW_LIST)}
    needed = set((_approved(kit) or ApprovedJobs(fedannot="", installed=())).classes)
    if "*" in listed or resources.get("class_list_enforcement_mode", "enforce") != "enforce":
        yield KitFault(Policy.ALLOW_LIST, KitProblem.ANY_CLASS)
    elif missing := sorted(needed - listed):
        yield KitFault(Policy.ALLOW_LIST, KitProblem.CLASSES_MISSING, {"classes": ", ".join(missing[:3])})
    elif more := sorted(listed - needed):
        counted = {"number": str(len(more)), "first": more[0]}
        yield KitFault(Policy.ALLOW_LIST, KitProblem.CLASSES_NOT_NEEDED, counted)


def _approved(kit: KitFiles) -> ApprovedJobs | None:
    try:
        return read_approved(kit.local)
    except DataError:
        return None


def _right_faults(kit: KitFiles) -> Iterator[KitFault]:
    policy, error = parse_policy_config(kit.document("rights"), COMMAND_CATEGORIES)
    for rule, rights in _REFUSED_RIGHTS.items():
        if policy is None:
            yield KitFault(rule, KitProblem.UNREADABLE, {"error": f"authorization.json: {error}"})
        elif allowed := sorted({role for role in policy.get_roles() for right in rights if _may(policy, role, right)}):
            yield KitFault(rule, KitProblem.OPEN_TO, {"roles": ", ".join(allowed)})


def _operator_faults(kit: KitFiles) -> Iterator[KitFault]:
    """Yield who could restart, stop or shut out a participant and is not its operator.

    At the server that is the project administrator alone, whatever organisation others are of. At a site it is also an
    administrator of the site's own organisation.
    """
    policy, error = parse_policy_config(kit.document("rights"), COMMAND_CATEGORIES)
    if policy is None:
        yield KitFault(Policy.OPERATORS, KitProblem.UNREADABLE, {"error": f"authorization.json: {error}"})
        return
    others = {role for role in policy.get_roles() if role != _OPERATOR}
    allowed = sorted({role for role in others for right in _OPERATING if _may(policy, role, right)})
    is_own_site = kit.role == "site" and allowed == [_OWN_OPERATOR] and _is_own_sites(policy, _OWN_OPERATOR)
    if allowed and not is_own_site:
        yield KitFault(Policy.OPERATORS, KitProblem.OPERATED_BY, {"roles": ", ".join(allowed)})


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
        yield KitFault(Policy.LOGS, KitProblem.LOGS_SENT, {"setting": "allow_log_streaming"})
        return
    classes = {str(entry.get(key)) for values in merged for entry in components_of(values) for key in _CLASS_KEYS}
    if named := sorted(name for name in classes if name.endswith(_LOG_COMPONENTS)):
        yield KitFault(Policy.LOGS, KitProblem.LOGS_SENT_BY, {"component": named[0]})


# NVFlare takes the first of these that a component has.
_CLASS_KEYS = ("path", "class_path", "name")


def _private_log_faults(kit: KitFiles) -> Iterator[KitFault]:
    if not keeps_names_private(kit.document("logs")):
        yield KitFault(Policy.PRIVATE_LOG, KitProblem.LOGS_WITH_NAMES)


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
        named = {"scopes": ", ".join(open_ones)}
        yield KitFault(Policy.OUTBOUND_FILTER, KitProblem.SCOPES_WITHOUT_FILTER, named, of_own_policies=True)
    elif privacy.get("default_scope") not in [scope.get("name") for scope in scopes]:
        yield KitFault(Policy.OUTBOUND_FILTER, KitProblem.NO_DEFAULT_FILTER)


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
