"""A plan for a federation as settings: what was chosen and why, in sentences and as a `.conf` file."""

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from ...custom.components.component import TARGET
from ...custom.data.whole_files import write_text
from ...custom.planning.fingerprint import Fingerprint
from ...custom.planning.topology import Topology
from ...custom.planning.training_plan import Grid, Limit, TrainingPlan
from ...custom.recipe import RESEARCH
from ...custom.run.time_left import duration
from ...custom.settings import SettingValues
from ...transforms.errors import DataError
from ..runs.planned_settings import FULL_STEPS
from ..runs.settings_files import PlannedTime
from .machine import MachineSpeed, dynunet

# A class with less of all pixels is named, and so are sizes that differ by this factor.
_RARE_FRACTION, _WIDE = 1e-3, 2.0
_LOW, _HIGH = 0.1, 0.9
# SGD of short rounds, chosen on training cases of hippocampi; see docs/lab/plan.md.
_MOMENTUM, _LEARNING_RATE = 0.9, 0.05
# How often a run scores its model at most, where nobody has measured how long that takes.
_SCORINGS = 10
VALIDATE_EVERY = "validate_every"
_AXES = ("first", "second", "third")
_LIMITED = {
    Limit.IMAGES: "as large as the images allow",
    Limit.MEMORY: "as large as the memory allows",
    Limit.TIME: "as large as the time allows",
}
_WIDTH_LIMITED = {
    Limit.IMAGES: "as many as nnU-Net has",
    Limit.MEMORY: "fewer than nnU-Net's 32, as the memory allows",
    Limit.TIME: "fewer than nnU-Net's 32, so that there is time for enough steps",
}


@dataclass(frozen=True)
class Choice:
    """A planned setting.

    Attributes:
        key: dotted, with one dot at most.
        value: of the setting.
        reason: why it is so; empty where the value says it.
    """

    key: str
    value: JsonValue
    reason: str = ""


@dataclass(frozen=True)
class SuggestedSettings:
    """Settings for a federation, and why they are so.

    Attributes:
        fingerprint: of all sites' cases together.
        grid: the images as the network gets them.
        training: the plan.
        choices: the settings with their reasons; those of one block follow each other.
        advice: sentences on `data.yaml`, which these settings cannot change.
        classes: names of the foreground classes.
        time: for what time on which machine they were planned.
    """

    fingerprint: Fingerprint
    grid: Grid
    training: TrainingPlan
    choices: tuple[Choice, ...]
    advice: tuple[str, ...]
    classes: tuple[str, ...]
    time: PlannedTime

    @property
    def values(self) -> SettingValues:
        """The settings by their dotted keys."""
        return {choice.key: choice.value for choice in self.choices}

    @property
    def sentences(self) -> tuple[str, ...]:
        """The plan in words, a sentence each."""
        plan, fingerprint = self.training, self.fingerprint
        steps = plan.steps_of_site
        full = duration(plan.step_seconds * FULL_STEPS)
        spacing = fingerprint.spacing()
        sizes = "" if spacing is None else f", voxels of {_sizes(spacing)} mm"
        return (
            f"{fingerprint.num_cases} cases of {fingerprint.num_patients} patients: "
            f"{_sizes(fingerprint.extents(), 0)} voxels{sizes}.",
            f"A step takes {plan.step_seconds:.2g} s here. In {self.time.hours:g} h there is time for {plan.rounds} "
            f"{'round' if plan.rounds == 1 else 'rounds'} of {plan.local_steps} steps at each site.",
            f"That is {steps} steps a site, {100 * steps / FULL_STEPS:.2g} % of nnU-Net's {FULL_STEPS}, which would "
            f"take {full} a site.",
            *_on_mixtures(fingerprint),
            *_on_classes(fingerprint, self.classes),
            *self.advice,
        )

    @property
    def text(self) -> str:
        """As a `.conf` file, with a comment for each choice."""
        time = self.time
        known = f"hours = {time.hours:g}, sites = {time.sites}, step_seconds = {time.step_seconds:.4g}"
        if time.sites_at_once > 1:
            known += f", sites_at_once = {time.sites_at_once}"
        if time.expected_hours is not None:
            known += f", expected_hours = {time.expected_hours:.4g}"
        lines = [
            "# Planned from the images. How to run:",
            "#   fedannot simulate fedavg --data DIR --settings THIS_FILE",
            *(f"# {sentence}" for sentence in self.sentences),
            "settings {",
            *self._blocks(),
            "}",
            "# For what it was planned",
            f"planned {{ {known} }}",
        ]
        return "\n".join(lines) + "\n"

    def _blocks(self) -> Iterator[str]:
        for block, choices in itertools.groupby(self.choices, lambda choice: choice.key.rpartition(".")[0]):
            if block:
                yield f"  {block} {{"
            for choice in choices:
                line = f"{'    ' if block else '  '}{choice.key.rpartition('.')[2]} = {json.dumps(choice.value)}"
                yield f"{line}  # {choice.reason}" if choice.reason else line
            if block:
                yield "  }"

    def write(self, file: Path) -> None:
        """Write the settings as a `.conf` file.

        Raises:
            DataError: if the file is there already.
        """
        if file.exists():
            raise DataError(f"{file}: is there already; expected a new file.")
        write_text(file, self.text)


def choices_of(
    training: TrainingPlan,
    *,
    channels: int,
    classes: int,
    speed: MachineSpeed,
    mirror_axes: Sequence[int] | None = None,
) -> tuple[Choice, ...]:
    """Return a plan as settings with their reasons.

    Args:
        training: the plan.
        channels: of the images.
        classes: how many foreground classes there are.
        speed: of the machine, with its precision.
        mirror_axes: axes of a sample along which mirrored images are possible ones; None for all.
    """
    topology = training.topology
    levels = dynunet(topology)
    reasons = {
        "kernel_size": _kernel_reason(topology),
        "strides": "a level halves what has eight voxels",
        "filters": _WIDTH_LIMITED[training.width_limit],
        "norm_name": "small batches",
    }
    patch = (Choice("training.patch", list(topology.patch), _LIMITED[training.patch_limit]),)
    return (
        Choice("recipe", RESEARCH, "nnU-Net's choices of loss, optimizer and augmentation"),
        Choice("rounds", training.rounds, f"{training.steps_of_site} steps a site in all"),
        *_scoring(training.rounds),
        Choice(f"network.{TARGET}", "DynUNet", "nnU-Net's network in MONAI"),
        Choice("network.spatial_dims", len(topology.patch)),
        Choice("network.num_classes", classes, "foreground classes"),
        Choice("network.in_channels", channels),
        *(Choice(f"network.{key}", value, reasons.get(key, "")) for key, value in levels.items()),
        *(() if training.is_whole else patch),
        Choice(
            "training.batch_size",
            training.batch_size,
            "at most a twentieth of a site's voxels, but for the least batch",
        ),
        Choice("training.local_steps", training.local_steps, "a round"),
        Choice("training.momentum", _MOMENTUM, "nnU-Net's 0.99 takes longer to build up than a site trains in a round"),
        Choice("training.learning_rate", _LEARNING_RATE, "with less momentum a larger one"),
        *_precision(speed),
        *_mirroring(mirror_axes),
    )


def _scoring(rounds: int) -> tuple[Choice, ...]:
    every = math.ceil(rounds / _SCORINGS)
    return (Choice(VALIDATE_EVERY, every, "rounds: scores take time"),) if every > 1 else ()


def _precision(speed: MachineSpeed) -> tuple[Choice, ...]:
    reason = f"bfloat16 is {speed.gain:.1f} times as fast here"
    return (Choice("training.precision", speed.precision, reason),) if speed.precision == "bf16" else ()


def _mirroring(axes: Sequence[int] | None) -> tuple[Choice, ...]:
    reason = "from left to right alone: no body has its front behind, or its head below"
    return () if axes is None else (Choice("training.mirror_axes", list(axes), reason),)


def _on_mixtures(fingerprint: Fingerprint) -> Iterator[str]:
    """Sentences where sizes spread so widely that their middle may be that of no image.

    Sites send means of logarithms, which do not tell two groups from one wide spread.
    """
    described = (
        ("millimetres of a voxel", fingerprint.spacing(_LOW), fingerprint.spacing(_HIGH)),
        ("numbers of voxels", fingerprint.extents(_LOW), fingerprint.extents(_HIGH)),
    )
    for what, lows, highs in described:
        if lows is None or highs is None:
            continue
        wide = [
            f"{low:.2g} to {high:.2g} along the {name} axis"
            for name, low, high in zip(_AXES, lows, highs, strict=True)
            if high > _WIDE * low
        ]
        if wide:
            yield (
                f"The {what} spread widely: {', '.join(wide)}. Their middle is a geometric mean, and if the images "
                "are of two groups, that of neither: look at the groups, and choose yourself."
            )


def _on_classes(fingerprint: Fingerprint, names: tuple[str, ...]) -> Iterator[str]:
    """A sentence for each class with few pixels, or that many cases lack."""
    pairs = zip(names, fingerprint.class_fractions, fingerprint.class_presence, strict=True)
    for name, fraction, presence in pairs:
        if fraction == 0:
            yield f"{name!r} is annotated in no case: it cannot be learnt."
        elif fraction < _RARE_FRACTION or presence < 0.5:
            yield (
                f"{name!r} is rare: {100 * fraction:.2g} % of all pixels, annotated in {100 * presence:.0f} % of the "
                "cases. If it is missed, raise training.class_weights."
            )


def _kernel_reason(topology: Topology) -> str:
    is_thick = any(1 in kernel for kernel in topology.kernels)
    return "one voxel along the thick axis until others are as thick" if is_thick else ""


def _sizes(values: tuple[float, ...], decimals: int = 2) -> str:
    present = values if not math.isclose(values[-1], 1.0) or decimals else values[:-1]
    return " × ".join(f"{value:.{decimals}f}" for value in present)
