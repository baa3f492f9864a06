"""A participant's limits for jobs: no path of its own, no number beyond what it allows, nothing of too few sites."""

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from ..components.component import TARGET
from ..components.roles import is_below
from ..data.json_record import JsonRecord, read_record
from ..data.path_names import JOB_ID, PLAIN_NAME
from ..methods.lookup import UnusableMethodError, method_of, read_job_settings
from ..outbound.fields import MINIMUM_CASES
from ..settings import RunSettings, SettingsError
from .configuration import JobRefusedError

_LOGGER = logging.getLogger(__name__)

# In a kit's folder `local`.
LIMITS_FILE = "limits.json"

# The largest value of a number, by the setting's dotted key; of a list every entry is meant.
DEFAULT_LIMITS: dict[str, float] = {
    "rounds": 2000,
    "warmup_rounds": 2000,
    "max_extra_warmup_rounds": 100,
    "head_epochs": 100,
    "distillation_rounds": 2000,
    "ramp_epochs": 200_000,
    "preprocessing_rounds": 2000,
    "finetuning_rounds": 2000,
    "clean_delay": 2000,
    "redo_delay": 2000,
    "estimates": 100,
    "folds": 5,
    "neighbours": 1000,
    "dropping_rounds": 2000,
    "random_images": 1000,
    "random_extent": 512,
    "rollback_rounds": 100,
    "smallest_lesion": 1_000_000,
    "scales": 2,
    "validate_every": 2000,
    "final_rounds": 2000,
    "patience": 2000,
    "keep_rounds": 2000,
    "waiting_memory_mb": 2**20,
    "threads": 64,
    "min_sites": 10_000,
    "max_failed_rounds": 100,
    "aggregation.trim": 5000,
    "aggregation.byzantine": 5000,
    "aggregation.kept": 10_000,
    "aggregation.passes": 10_000,
    "task_timeout": 7 * 86400,
    "grace_period": 7 * 86400,
    "seed": 2**63 - 1,
    "training.local_epochs": 100,
    "training.local_steps": 10_000,
    "training.batch_size": 1024,
    "training.mirror_axes": 2,
    "training.patch": 512,
    "training.patches_per_volume": 64,
    "network.in_channels": 16,
    "network.features": 1024,
    "network.widths": 2048,
    "network.num_classes": 256,
    "network.latent": 256,
    "network.encoder_features": 512,
    "embedded.sites": 1000,
    "embedded.images_per_site": 1000,
    "embedded.test_images": 1000,
    "embedded.seed": 2**63 - 1,
}
# Weights, rates, shares, margins: what decides results, not what a site has to do.
_LARGEST_OTHER = 1e6
# Arguments of a network's class: widths, extents, numbers of layers.
_LARGEST_OF_NETWORK = 4096

# Settings that hold a text which no list of allowed values bounds, and what it may be in a deployed job, see
# TextRefusedError.
_EMPTY = re.compile("")
_JOB_ID = re.compile(f"({JOB_ID.pattern})?")
_NAME = re.compile(f"({PLAIN_NAME.pattern})?")
_REFERENCE_LEVEL = re.compile(f"auto|reference|balanced|median|edges|site:{PLAIN_NAME.pattern}")
_CONSENSUS = re.compile(f"majority|staple|random-per-epoch|soft|one:{PLAIN_NAME.pattern}")
_BLOCK = re.compile(r"[A-Za-z0-9_.]{1,200}")
_NOISE = re.compile(r"[A-Za-z0-9()., _+-]{1,500}")
TEXTS: dict[str, re.Pattern[str]] = {
    "data": _EMPTY,
    "resume_from": _JOB_ID,
    "start_model": _NAME,
    "network.checkpoint": _NAME,
    "reference_level": _REFERENCE_LEVEL,
    "training.consensus": _CONSENSUS,
    "blocks": _BLOCK,
    "embedded.noise": _NOISE,
    "embedded.protocols": _NOISE,
    "embedded.label_noise": _NOISE,
}
_LONGEST_LIST = 200


class TextRefusedError(JobRefusedError):
    """A setting holds a text that a deployed job may not have.

    Args:
        key: the setting.
        value: what it holds.
    """

    EXPECTED: ClassVar[dict[str, str]] = {
        "data": "nothing: every site trains on the data that its own kit names",
        "resume_from": "the id of an earlier job, whose state the server has",
        "start_model": "the name of a model in the folder 'models' of the server's kit",
        "network.checkpoint": "the name of a model in the folder 'models' of the server's kit",
        "reference_level": "a place of zero, or 'site:' and a site's name",
        "training.consensus": "a rule for several annotations, or 'one:' and an annotator's plain name",
        "blocks": "prefixes of parameters",
        "embedded.noise": "a model of noise",
        "embedded.protocols": "protocols",
        "embedded.label_noise": "a model of wrong labels",
    }

    def __init__(self, key: str, value: str) -> None:
        expected = self.EXPECTED.get(key, "a name")
        super().__init__(f"The setting {key!r} is {value[:200]!a}; expected {expected}.")


class Minimum(JsonRecord):
    """What a participant wants at least, so that no result is of one site, one patient or a few samples.

    Files that do not have it, as those of older kits, mean these values.

    Attributes:
        min_sites: sites whose usable results a round needs, and that a job names.
        samples_per_step: samples or patches of a full optimizer step; a site trains on as many in an epoch.
        patients: patients or volumes that a site's update is over.
    """

    min_sites: Annotated[int, Field(ge=1)] = 3
    samples_per_step: Annotated[int, Field(ge=1)] = 4
    patients: Annotated[int, Field(ge=1)] = MINIMUM_CASES


class Limits(JsonRecord):
    """What a participant allows at most, and wants at least.

    Attributes:
        largest: largest values by the settings' dotted keys; what is not named has :data:`DEFAULT_LIMITS`.
        smallest: of how few sites, patients and samples a result may be.
        largest_share: largest weight of one site in a layer block of a model.
        models_to_sites: whether a job may give a site models of single other sites (FedDM).
        components: the packages and classes that a job may name by ``_target_``; None for all that the installation
            allows (:func:`fedannot.custom.components.roles.allowed_packages`).
    """

    largest: dict[str, float] = Field(default_factory=dict)
    smallest: Minimum = Minimum()
    largest_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    models_to_sites: Annotated[bool, Field(strict=True)] = False
    components: tuple[str, ...] | None = None

    def of(self, key: str) -> float:
        """Return the largest value of a setting."""
        other = _LARGEST_OF_NETWORK if key.startswith("network.") else _LARGEST_OTHER
        return self.largest.get(key, DEFAULT_LIMITS.get(key, other))


def read_limits(config_folder: Path) -> Limits:
    """Read the limits in a kit's folder `local`; the defaults without such a file.

    Raises:
        DataError: if the file cannot be used.
    """
    return read_record(config_folder / LIMITS_FILE, Limits) or Limits()


def check_settings(values: Mapping[str, Any], limits: Limits) -> RunSettings:
    """Check the settings of a deployed job.

    Args:
        values: the document of settings.
        limits: the participant's.

    Raises:
        JobRefusedError: if they cannot be used, name a path or data, or a number is beyond its limit.
    """
    try:
        settings = read_job_settings(values, source="the job's settings")
    except UnusableMethodError as error:
        _LOGGER.error("%s", error)
        raise JobRefusedError(
            f"The method {values['method']!r} is of another package, which cannot be used here; see the participant's "
            "log."
        ) from error
    except (SettingsError, RecursionError) as error:
        raise JobRefusedError(str(error)) from error
    if method_of(settings).models_to_sites and not limits.models_to_sites:
        raise JobRefusedError(
            f"The method {settings.method!r} gives every site the models of other sites; {LIMITS_FILE} here does not "
            "allow it. Expected 'models_to_sites': true, at the server and at every site."
        )
    check_texts(settings)
    check_components(settings, limits)
    for key, value in _leaves(settings.model_dump()):
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) > limits.of(key):
            raise JobRefusedError(f"The setting {key!r} is {value!r:.40}; at most {limits.of(key):g} is allowed here.")
    return settings


def check_components(settings: RunSettings, limits: Limits) -> None:
    """Check that a job names no class that a participant does not allow.

    Raises:
        JobRefusedError: if it does.
    """
    if limits.components is None:
        return
    for key, value in _leaves(settings.model_dump(mode="json")):
        if key.endswith(f".{TARGET}") and not is_below(str(value), limits.components):
            raise JobRefusedError(
                f"The setting {key!r} is {str(value)[:200]!a}; allowed here are classes of "
                f"{', '.join(limits.components) or 'no package'}."
            )


def check_minimum(
    settings: RunSettings, limits: Limits, sites: Collection[str] | None, *, takes_bounds: bool = True
) -> None:
    """Check that a job makes no model of fewer sites, and no step of fewer samples, than a participant wants.

    Args:
        settings: the job's settings.
        limits: the participant's.
        sites: the sites that the job names; None for all that are there when it starts.
        takes_bounds: whether the job can bound a site's weight. Where it cannot, the weights are by samples alone, and
            the aggregating participant drops a round in which one site has more than the largest share.

    Raises:
        JobRefusedError: if it does.
    """
    smallest = limits.smallest
    if settings.min_sites < smallest.min_sites:
        raise JobRefusedError(
            f"The setting 'min_sites' is {settings.min_sites}; at least {smallest.min_sites} is required here, so that "
            "no model is of fewer sites."
        )
    if sites is not None and len(set(sites)) < smallest.min_sites:
        raise JobRefusedError(
            f"The job names {len(set(sites))} sites; at least {smallest.min_sites} are required here, so that no model "
            "is of fewer."
        )
    if takes_bounds and settings.influence.max_share > limits.largest_share:
        raise JobRefusedError(
            f"The setting 'influence.max_share' is {settings.influence.max_share:g}; at most {limits.largest_share:g} "
            "is allowed here, so that no model is nearly one site's."
        )
    if settings.training.batch_size < smallest.samples_per_step:
        raise JobRefusedError(
            f"The setting 'training.batch_size' is {settings.training.batch_size}; at least "
            f"{smallest.samples_per_step} is required here."
        )


def check_texts(settings: RunSettings) -> None:
    """Check that settings name no path, no data, and nothing that NVFlare would put something else in the place of.

    Raises:
        JobRefusedError: if they do, or would have a site train on the embedded phantom.
    """
    if not settings.data_required:
        raise JobRefusedError("The setting 'data_required' is false; in a deployed job sites train on their own data.")
    content = settings.model_dump()
    for key, value in _leaves(content):
        if not isinstance(value, str):
            continue
        if not TEXTS.get(key, _NAME).fullmatch(value):
            raise TextRefusedError(key, value)


def _leaves(values: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every single value with the dotted key of its setting.

    Raises:
        JobRefusedError: if a list is too long.
    """
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield from _leaves(value, f"{key}.{name}" if key else str(name))
    elif isinstance(values, (list, tuple)):
        if len(values) > _LONGEST_LIST:
            raise JobRefusedError(f"The setting {key!r} has {len(values)} entries; at most {_LONGEST_LIST} may be.")
        for value in values:
            yield from _leaves(value, key)
    else:
        yield key, values
