"""What a method declares of itself: its name and task, its settings, where its two halves are, what it sends."""

import pkgutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..annotation_gaps import AnnotationGap
from ..consensus_rule import ConsensusKind
from ..outbound.fields import COMMON_FIELDS, OutboundField
from ..settings import RunSettings, SettingsError
from ..task_names import TRAIN

if TYPE_CHECKING:
    from .method import ServerMethod, SiteMethod

_COMMON_TASKS = frozenset(task for field in COMMON_FIELDS for task in field.tasks)
# Models are what training sends; a number is computed over patients, and says over how many.
_TAKEN = frozenset({"method_task", "params_type", "params"})
_KINDS = ("number", "numbers", "count", "counts", "flag")


@dataclass(frozen=True)
class Method:
    """One line of :data:`fedannot.custom.methods.METHODS`.

    The halves are named and not imported: who checks a job's settings loads no PyTorch, and a site no server.

    Attributes:
        name: the setting ``method`` of its jobs.
        task: the setting ``task``.
        settings: the job's settings.
        server: its :class:`fedannot.custom.interface.method.ServerMethod`, as ``package.module:Class``.
        site: its :class:`fedannot.custom.interface.method.SiteMethod`, as above.
        outbound_fields: what leaves a site besides what leaves it in federated averaging. Their tasks are ``train``, or
            the method's own, which its site half answers.
        supports: what annotations may say nothing of. A site with any other gap is refused before it trains, since its
            background would count as one.
        consensus: the kinds of rules for several annotations of a case that it can train with. By default none: a
            method that corrects or lists the site's own files has no file for what a rule makes.
        models_to_sites: whether sites receive models of single other sites. Its jobs have to allow it by a setting of
            this name, and each participant by :attr:`fedannot.custom.approval.limits.Limits.models_to_sites`.

    Raises:
        ValueError: if two fields of a task have one name, or a field could carry what the guard cannot check: a model
            besides the trained one, a number that does not say over how many patients it is, or a field of a task that
            all methods share.

    Example:
        >>> from fedannot.custom.methods.lookup import find_method
        >>> sorted(find_method("segmentation", "feda3i").own_tasks)
        ['estimate_quality']
    """

    name: str
    task: Literal["segmentation", "classification"]
    settings: type[RunSettings]
    server: str
    site: str
    outbound_fields: tuple[OutboundField, ...] = ()
    supports: frozenset[AnnotationGap] = frozenset()
    consensus: frozenset[ConsensusKind] = frozenset()
    models_to_sites: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.settings, type) and issubclass(self.settings, RunSettings)):
            raise ValueError(f"Method {self.name!r}: its settings are {self.settings!r:.80}, expected a RunSettings.")
        if wrong := sorted(
            {name for outbound_field in self.outbound_fields for name in (outbound_field.name, *outbound_field.tasks)}
            - _names(self.outbound_fields)
        ):
            raise ValueError(f"Method {self.name!r}: {wrong[0]!r:.80} is no plain name of a field or a task.")
        sent = [(task, field.name) for field in (*COMMON_FIELDS, *self.outbound_fields) for task in field.tasks]
        if twice := sorted({item for item in sent if sent.count(item) > 1}):
            raise ValueError(f"Method {self.name!r}: task {twice[0][0]!r} has two fields {twice[0][1]!r}.")
        for field in self.outbound_fields:
            if field.kind not in _KINDS:
                raise ValueError(f"Method {self.name!r}: field {field.name!r} cannot be of kind {field.kind!r}.")
            if shared := sorted(set(field.tasks) & (_COMMON_TASKS - {TRAIN})):
                raise ValueError(f"Method {self.name!r}: field {field.name!r} cannot go with the task {shared[0]!r}.")
            if field.kind in ("number", "numbers") and not self._counts(field):
                raise ValueError(
                    f"Method {self.name!r}: field {field.name!r} must name in 'counted_by' the declared field with the "
                    "number of patients that it is computed over."
                )

    def _counts(self, field: OutboundField) -> bool:
        counts = [other for other in (*COMMON_FIELDS, *self.outbound_fields) if other.name == field.counted_by]
        return set(field.tasks) <= {
            task for other in counts if other.kind in ("count", "counts") for task in other.tasks
        }

    @property
    def own_tasks(self) -> frozenset[str]:
        """What its sites are asked for besides training and validation."""
        return frozenset(task for field in self.outbound_fields for task in field.tasks) - _COMMON_TASKS

    def server_part(self, settings: RunSettings) -> "ServerMethod":
        """Return what it does at the server.

        Raises:
            SettingsError: if the named class cannot be loaded.
        """
        made: ServerMethod = self._half("server", self.server)(settings)
        return made

    def site_part(self, settings: RunSettings) -> "SiteMethod":
        """Return what it does at a site.

        Raises:
            SettingsError: if the named class cannot be loaded.
        """
        made: SiteMethod = self._half("site", self.site)(settings)
        return made

    def _half(self, where: str, path: str) -> Any:
        try:
            half = pkgutil.resolve_name(path)
        except (ImportError, AttributeError, ValueError) as error:
            raise SettingsError(
                f"Method {self.name!r}: its half at the {where}, {path!r}, cannot be loaded: {error}"
            ) from error
        if not isinstance(half, type) or not hasattr(half, "weights" if where == "server" else "train"):
            raise SettingsError(f"Method {self.name!r}: {path!r} is no half at the {where}; expected a class of one.")
        return half


def _names(outbound_fields: tuple[OutboundField, ...]) -> set[str]:
    """The names and tasks of fields that are plain: identifiers, and none that NVFlare or the guard uses."""
    result = {name for outbound_field in outbound_fields for name in (outbound_field.name, *outbound_field.tasks)}
    return {name for name in result if isinstance(name, str) and name.isidentifier() and name not in _TAKEN}
