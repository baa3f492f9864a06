"""What jobs and accounts may do with the participant's kit, as a process of NVFlare judges it when it starts."""

from collections.abc import Callable, Iterator

from ...custom.approval.approved import ApprovedJobs, read_approved
from ...custom.flare.kit_policies import KitFault, Policy, kit_faults
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


def _problem(fault: KitFault, kit: Kit) -> Point:
    prepare = f"fedannot deploy prepare {kit.folder}"
    remedy = f"Take the scope out of site.yaml, then: {prepare}" if fault.of_own_policies else prepare
    return Point(fault.policy, State.PROBLEM, fault.found, remedy)


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
    Policy.OUTBOUND_FILTER: _outbound_filter,
}
