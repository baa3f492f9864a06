"""What is wrong with a policy of a participant's kit, in words."""

from collections.abc import Mapping

from ...custom.flare.kit_policies import KitFault, KitProblem
from .phrases import filled

_SENT = "are sent, or written as others send them"
_SENTENCES: Mapping[KitProblem, str] = {
    KitProblem.UNREADABLE: "{error}",
    KitProblem.NOT_ASSESSED: "cannot be assessed, since a file of local has other values than expected: {error}",
    KitProblem.CHECK_NOT_NAMED: "{file} does not name it, so that one file switches it off",
    KitProblem.ANY_JOB: "any job runs here, whatever it asks for: no component {component}",
    KitProblem.OTHER_FOLDER: "{component} looks into {folder}, which is not this kit's folder local",
    KitProblem.NO_JOB: "none, so that no job runs here",
    KitProblem.OTHER_VERSION: "those of fedannot {approved}, but {installed} is installed",
    KitProblem.ANY_CLASS: "jobs may use any installed class",
    KitProblem.CLASSES_MISSING: "approved jobs may not use {classes}",
    KitProblem.CLASSES_NOT_NEEDED: "{number} entries that no approved job needs, {first} among them",
    KitProblem.OPEN_TO: "open to {roles}",
    KitProblem.OPERATED_BY: "open to {roles}, who could restart or stop it",
    KitProblem.LOGS_SENT: f"{_SENT}: {{setting}} is not false",
    KitProblem.LOGS_SENT_BY: f"{_SENT}: by {{component}}",
    KitProblem.LOGS_WITH_NAMES: "logs that NVFlare stores or returns may hold names of files",
    KitProblem.SCOPES_WITHOUT_FILTER: "none in the scope {scopes}, which a job could name",
    KitProblem.NO_DEFAULT_FILTER: "only jobs that have it use the outbound filter",
    KitProblem.NOT_SECURE: "{argument} is missing, without which nobody is asked for rights",
    KitProblem.LOGS_SENT_BY_ARGUMENT: "an argument of the start script says {argument}",
    KitProblem.NO_LOG_LEVEL: "the variable {variable} is {value}; expected a level: other logs are written",
}


def kit_fault_in_words(fault: KitFault) -> str:
    """Return what was found in place of a policy; the policy itself is not named."""
    return filled(_SENTENCES[fault.problem], fault.values)
