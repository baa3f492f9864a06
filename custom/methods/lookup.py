"""Which method a job's settings name, among those of `fedannot` and those of other installed packages."""

import functools
from collections.abc import Collection, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ..consensus_rule import ConsensusKind
from ..data.decided_labels import LABEL_MADE
from ..interface.declaration import Method
from ..settings import RunSettings, SettingsError, read_settings
from . import METHODS

# Where other packages name their methods: the entry point is called as the method, and gives a Method or several.
ENTRY_POINTS = "fedannot.methods"

TASKS = ("segmentation", "classification")


class UnusableMethodError(SettingsError):
    """Another package's method cannot be used; the text may name this machine's files."""


def method_names(task: str) -> list[str]:
    """Return the names of the methods for a task, those of other packages last.

    Of these no package is imported, so that one that is only for another task is named, too.
    """
    own = [method.name for method in METHODS if method.task == task]
    return own + sorted(set(_entry_points()) - {method.name for method in METHODS})


def find_method(task: str, name: str, source: str = "settings.conf") -> Method:
    """Return the method of a name, whose package is imported where it is another one's.

    A name of `fedannot`'s own methods never leads elsewhere.

    Args:
        task: what is learnt.
        name: the method's name.
        source: the file to name in an error.

    Raises:
        SettingsError: if there is none, or another package's cannot be used.

    Example:
        >>> find_method("segmentation", "feda3i").settings.__name__
        'FedA3ISettings'
    """
    own = [method for method in METHODS if method.name == name]
    for method in own or _installed(name):
        if method.task == task:
            return method
    raise SettingsError(
        f"{source}: key 'method' is {name!r}; allowed for {task}: {', '.join(sorted(method_names(task)))}."
    )


def method_of(settings: RunSettings) -> Method:
    """Return the method that a job's settings name.

    Raises:
        SettingsError: if there is none.
    """
    return find_method(settings.task, settings.method)


def read_job_settings(
    values: Mapping[str, Any], source: str = "settings.conf", *, of_finished_run: bool = False
) -> RunSettings:
    """Check the settings of a job whose keys ``task`` and ``method`` say what is learnt and how.

    Args:
        values: what the job's configuration holds, or a run's summary or state.
        source: the file to name in an error.
        of_finished_run: whether the run is over; see :func:`fedannot.custom.settings.read_settings`.

    Raises:
        SettingsError: if the task or the method is unknown, a key is unknown or a value not allowed.
    """
    task, name = values.get("task", "segmentation"), values.get("method")
    if task not in TASKS:
        raise SettingsError(f"{source}: key 'task' is {task!r}; allowed: {', '.join(TASKS)}.")
    if not isinstance(name, str):
        allowed = ", ".join(sorted(method_names(task)))
        raise SettingsError(f"{source}: key 'method' is {name!r}; allowed for {task}: {allowed}.")
    method = find_method(task, name, source)
    settings = read_settings(method.settings, values, source, of_finished_run=of_finished_run)
    _check_consensus(settings, method, source)
    if method.models_to_sites and not getattr(settings, "models_to_sites", False):
        raise SettingsError(
            f"{source}: key 'models_to_sites' is false, but the method {name!r} gives every site the models of other "
            "sites; set models_to_sites = true if all sites allow it."
        )
    return settings


def _check_consensus(settings: RunSettings, method: Method, source: str) -> None:
    """Check that a method can train with the rule for several annotations.

    Raises:
        SettingsError: if it cannot.
    """
    rule = getattr(settings.training, "consensus_rule", None)
    if rule is None or rule.kind in method.consensus:
        return
    names = {ConsensusKind.ONE: "one:NAME"}
    allowed = ", ".join(names.get(kind, kind.value) for kind in ConsensusKind if kind in method.consensus) or "none"
    raise SettingsError(
        f"{source}: key 'training.consensus' is {rule.kind.value!r}, but the method {method.name!r} takes "
        f"{allowed}. {LABEL_MADE} makes data with a label of each case."
    )


def all_methods() -> list[Method]:
    """Return all methods, those of other packages last.

    Raises:
        SettingsError: if another package's cannot be used.

    Example:
        >>> sorted(method.name for method in all_methods() if method.task == "classification")[:5]
        ['audit_classification', 'auto_classification', 'elr', 'fedavg', 'fedcorr']
    """
    own = {method.name for method in METHODS}
    return [*METHODS, *(method for name in sorted(set(_entry_points()) - own) for method in _installed(name))]


@functools.cache
def _entry_points() -> dict[str, EntryPoint]:
    return {found.name: found for found in entry_points(group=ENTRY_POINTS)}


@functools.cache
def _installed(name: str) -> tuple[Method, ...]:
    """The methods of an entry point; none where there is no such entry point."""
    result = _entry_points().get(name)
    if result is None:
        return ()
    try:
        given = result.load()
        methods = (given,) if isinstance(given, Method) else tuple(given)
    except (Exception, SystemExit) as error:
        raise UnusableMethodError(
            f"The method {name!r} is of another package, {result.value!r}, which cannot be used: "
            f"{type(error).__name__}: {error}"
        ) from error
    _check(result, methods)
    return methods


def _check(found: EntryPoint, methods: Collection[Any]) -> None:
    if not methods:
        raise UnusableMethodError(f"The entry point {found.value!r} of the group {ENTRY_POINTS!r} gives no method.")
    for method in methods:
        if not isinstance(method, Method) or method.name != found.name:
            raise UnusableMethodError(
                f"The entry point {found.value!r} of the group {ENTRY_POINTS!r} gives {method!r:.80}, expected a "
                f"fedannot.custom.interface.declaration.Method of the name {found.name!r}."
            )
