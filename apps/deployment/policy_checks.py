"""What jobs and accounts may do with the participant's kit, as a process of NVFlare checks it when it starts."""

from collections.abc import Callable, Iterator

from ...custom.approval.approved import ApprovedJobs, read_approved
from ...custom.approval.limits import Limits, Minimum, read_limits
from ...custom.flare.kit_policies import KitFault, Policy, kit_faults
from ...transforms.errors import DataError
from ..wording.kit_faults import kit_fault_in_words
from ..wording.shell_words import shell_word
from .check_points import Point, State
from .kit import Kit


def check_policies(kit: Kit) -> Iterator[Point]:
    """Is every policy in force? If not, server and sites do not start, and neither does the process of a job."""
    faults = kit_faults(kit.folder)
    for policy, ready in _READY.items():
        broken = [fault for fault in faults if fault.policy == policy]
        if broken:
            yield from (_problem(fault, kit) for fault in broken)
        elif text := ready(kit):
            yield Point(policy, State.READY, text)


def check_minimum(kit: Kit) -> Iterator[Point]:
    """Of how few sites, patients and samples may a result be?"""
    try:
        limits = read_limits(kit.local)
    except DataError:
        # Said with the approved jobs.
        return
    given, typical = limits.smallest.model_dump(), Minimum().model_dump()
    lower = [f"{key} {given[key]}, by default {typical[key]}" for key in typical if given[key] < typical[key]]
    if limits.largest_share > Limits().largest_share:
        lower.append(f"largest_share {limits.largest_share:g}, by default {Limits().largest_share:g}")
    if limits.models_to_sites:
        lower.append("models_to_sites true, by default false: models of this site may reach other sites")
    if lower:
        remedy = "Is that meant, as between two hospitals? Else mend limits.json in site.yaml or server.yaml."
        yield Point("minimum", State.WARNING, f"a result may be of few: {'; '.join(lower)}", remedy)
    else:
        result = f"models of {limits.smallest.min_sites} sites, updates of {limits.smallest.patients} patients or more"
        yield Point("minimum", State.READY, result)


def _problem(fault: KitFault, kit: Kit) -> Point:
    prepare = f"fedannot deploy prepare {shell_word(kit.folder)}"
    remedy = f"Take the scope out of site.yaml, then: {prepare}" if fault.of_own_policies else prepare
    return Point(fault.policy, State.PROBLEM, kit_fault_in_words(fault), remedy)


def _approved(kit: Kit) -> ApprovedJobs:
    return read_approved(kit.local) or ApprovedJobs(fedannot="", installed=())


def _approved_jobs(kit: Kit) -> str:
    approved = _approved(kit)
    others = ", ".join(f"{job.name} ({job.digest[:12]})" for job in approved.others)
    besides = f", and {others}" if others else ""
    return f"the {len(approved.installed)} of fedannot {approved.fedannot}{besides}"


def _operators(kit: Kit) -> str:
    return "project_admin alone" if kit.role == "server" else "project_admin, and org_admin of its own organisation"


def _outbound_filter(kit: Kit) -> str:
    return "" if kit.role == "server" else "whatever a job says, only registered fields leave"


# What is said where a policy is in force; nothing where it is none of the participant's.
_READY: dict[Policy, Callable[[Kit], str]] = {
    Policy.START_CHECK: lambda _: "a process that lacks one of the following does not start",
    Policy.APPROVED_JOBS: _approved_jobs,
    Policy.ALLOW_LIST: lambda kit: f"the {len(_approved(kit).classes)} classes that approved jobs name",
    Policy.NO_CODE: lambda _: "closed to everybody",
    Policy.NO_FILES: lambda _: "closed to everybody",
    Policy.OPERATORS: _operators,
    Policy.LOGS: lambda _: "stay here",
    Policy.PRIVATE_LOG: lambda _: "alone holds names of files",
    Policy.OUTBOUND_FILTER: _outbound_filter,
}
