"""What a run will take before it starts: steps, time, memory and traffic, by a few measured steps."""

import math
import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...custom.components.merging import merged
from ...custom.data.datalist import TESTING, TRAINING
from ...custom.data.description import DESCRIPTION_FILE
from ...custom.data.federation import TEST_FOLDER, read_federation
from ...custom.data.phantoms.choice import write_embedded_federation
from ...custom.run.time_left import duration
from ...custom.settings import RunSettings
from ..reports.html import html_paragraphs, html_table
from ..runs.data_compatibility import read_descriptions, settings_for_data
from ..runs.job import Job
from ..runs.settings_files import SettingsFile
from .measuring import MeasuredStep, measure_step
from .samples import count_samples, sample_extents

_NOT_COUNTED = "what a method does besides its steps, such as predictions of all cases, and the first reading of images"


@dataclass(frozen=True)
class SitePlan:
    """What one site does in a round.

    Attributes:
        site: its name.
        samples: that an epoch trains on: pictures, slices or patches.
        steps: of training in a round.
    """

    site: str
    samples: int
    steps: int


@dataclass(frozen=True)
class RunPlan:
    """What a run will take, by a few steps measured on this machine; a notebook shows it site by site.

    Attributes:
        job: the job's name.
        method: how it learns.
        rounds: of the run.
        sites: what each does in a round.
        test_samples: on which the server scores the model.
        scored_rounds: how often it does.
        step: the measured step.
        process_mb: that this process takes by itself.
        uses_generated_images: whether no data were given.
        step_factor: how many times as long the method's step takes as the measured one, by its passes.
    """

    job: str
    method: str
    rounds: int
    sites: tuple[SitePlan, ...]
    test_samples: int
    scored_rounds: int
    step: MeasuredStep
    process_mb: float
    uses_generated_images: bool
    step_factor: float = 1.0

    @property
    def steps(self) -> int:
        """Steps of all sites in all rounds."""
        return self.rounds * sum(site.steps for site in self.sites)

    @property
    def seconds(self) -> float:
        """Of the run in one process, where sites take turns."""
        return self.steps * self._step_seconds + self._scoring_seconds

    @property
    def seconds_side_by_side(self) -> float:
        """Of the run where every site has a machine like this one; without the time that models travel."""
        slowest = max(site.steps for site in self.sites)
        return self.rounds * slowest * self._step_seconds + self._scoring_seconds

    @property
    def _step_seconds(self) -> float:
        return self.step_factor * self.step.seconds

    @property
    def _scoring_seconds(self) -> float:
        return self.scored_rounds * self.test_samples * self.step.prediction_seconds

    @property
    def memory_mb(self) -> float:
        """Of a process in which a site trains, without its images, which are mapped from files."""
        return self.process_mb + self.step.training_mb

    @property
    def traffic_mb(self) -> float:
        """At most, between server and sites: the model to every site and back in every round."""
        return self.rounds * len(self.sites) * (self.step.model_mb + self.step.update_mb)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The plan in words, a sentence each; the last says what is not counted."""
        after = "each" if self.scored_rounds == self.rounds else f"{self.scored_rounds} of them"
        scoring = f", and {self.test_samples} test samples scored after {after}" if self.test_samples else ""
        passes = (
            "" if self.step_factor == 1 else f"; {self.method} takes {self.step_factor:.2g} times that, by its passes"
        )
        generated = ("The images are generated: no data were given.",) if self.uses_generated_images else ()
        return (
            *generated,
            f"{self.job} ({self.method}): {self.rounds} rounds at {len(self.sites)} sites{scoring}.",
            f"Time: about {duration(self.seconds)} in one process; about {duration(self.seconds_side_by_side)} where "
            "every site has such a machine, without the models' transfer.",
            f"Measured here, on {self.step.device}: {self.step.seconds:.3g} s for a step of training{passes}.",
            f"Memory of a site that trains: about {self.memory_mb:.0f} MB, images aside.",
            f"Traffic: at most {self.traffic_mb:.0f} MB, {self.step.model_mb:.1f} MB for each model to a site and "
            f"{self.step.update_mb:.1f} MB back.",
            f"Not counted: {_NOT_COUNTED}.",
        )

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        table = {
            "site": [site.site for site in self.sites],
            "samples": [str(site.samples) for site in self.sites],
            "steps per round": [str(site.steps) for site in self.sites],
        }
        return html_paragraphs(*self.sentences) + html_table(table)


def plan(
    job: str | Path,
    *,
    data: str | Path | None = None,
    settings: str | None = None,
    changes: Mapping[str, Any] | None = None,
    steps: int = 3,
) -> RunPlan:
    """Estimate time, memory and traffic of a run before it starts, by a few steps of training; nothing is written.

    Args:
        job: the name of an installed job, or a job's folder.
        data: a federation's folder; None for the generated images of the job's settings.
        settings: a set of settings, by its name in the job's folder or as a file.
        changes: single settings to change after that, ``{"rounds": 100}``.
        steps: how many steps of training are measured.

    Raises:
        JobError: if the job cannot be used.
        SettingsError: if a setting cannot be used.
        DataError: if the data cannot be read or do not fit the job.

    >>> from fedannot.apps import plan
    >>> found = plan("fedavg", changes={"rounds": 5, "network.features": [4, 4, 8, 8, 8, 4]})
    >>> len(found.sites), found.sites[0].steps, found.steps
    (8, 9, 360)
    """
    opened, folder = Job.open(job), None if data is None else Path(data)
    of_set = {} if settings is None else SettingsFile.read(opened, settings).values
    described = None if folder is None else read_descriptions(folder)
    chosen = opened.settings_with(settings_for_data(opened, merged(of_set, changes or {}), described))
    with _federation(folder, chosen) as planned:
        sites = tuple(_site_plan(planned, site, chosen) for site in read_federation(planned.folder).sites)
        test = planned.folder / TEST_FOLDER
        test_samples = count_samples(test, TESTING, chosen) if (test / DESCRIPTION_FILE).is_file() else 0
        extents = sample_extents(planned.folder / sites[0].site, TRAINING, chosen)
    process_mb = _resident_mb()
    return RunPlan(
        job=opened.name,
        method=chosen.method,
        rounds=chosen.rounds,
        sites=sites,
        test_samples=test_samples * planned.test_images,
        scored_rounds=sum(chosen.is_scored_after(number, at_server=True) for number in range(1, chosen.rounds + 1)),
        step=measure_step(chosen, extents, steps=steps),
        process_mb=process_mb,
        uses_generated_images=data is None,
        step_factor=chosen.step_factor,
    )


@dataclass(frozen=True)
class _Planned:
    """A federation on disk, and for how many images of the run each of its images stands."""

    folder: Path
    images_per_site: int = 1
    test_images: int = 1


@contextmanager
def _federation(data: Path | None, settings: RunSettings) -> Iterator[_Planned]:
    """The data themselves; or of generated ones a single image of each site, as all are of one size."""
    if data is not None:
        yield _Planned(data)
        return
    embedded = settings.embedded
    clean = dict.fromkeys(("noise", "stratified", "completeness", "protocols", "label_noise")) | {"exact": False}
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "data"
        write_embedded_federation(folder, embedded.model_copy(update=clean | {"images_per_site": 1, "test_images": 1}))
        yield _Planned(folder, embedded.images_per_site, embedded.test_images)


def _site_plan(planned: _Planned, site: str, settings: RunSettings) -> SitePlan:
    samples = count_samples(planned.folder / site, TRAINING, settings) * planned.images_per_site
    training = settings.training
    steps = training.local_steps or training.local_epochs * math.ceil(samples / training.batch_size)
    return SitePlan(site, samples, steps)


def _resident_mb() -> float:
    """What this process has needed at most so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
