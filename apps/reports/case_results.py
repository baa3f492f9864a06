"""What a run's model scores in every case of the server's test set and of the sites' own, on this machine.

Nothing of it leaves a site: it is computed where a run's output and the data are, of a simulation in one place.
"""

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...custom.data.datalist import TESTING, VALIDATION, Case, read_datalist
from ...custom.data.description import DESCRIPTION_FILE
from ...custom.data.federation import TEST_FOLDER
from ...custom.data.site_data import SiteData, count_cases, load_site_data
from ...custom.data.store_location import participant_store
from ...custom.evaluation.calibration import sample_bins
from ...custom.evaluation.case_results import PixelSize, measured_cases
from ...custom.evaluation.inference import Inference
from ...custom.methods.fedavg.settings import FedAvgSettings
from ...custom.methods.personal.settings import PersonalSettings
from ...custom.networks.described import described_network
from ...custom.networks.devices import ready_to_compute
from ...custom.run.summary_record import FinalModel
from ...custom.settings import RunSettings
from ...transforms.natural_order import natural_order
from .calibration_file import CALIBRATION_FILE, Calibration, write_calibration
from .local_models import local_model
from .output import read_metrics
from .result_rows import GLOBAL_MODEL, ResultRow, RunName, classification_row, segmentation_row
from .results_file import RESULTS_FILE, round_lines, write_results


@dataclass(frozen=True)
class FinishedRun:
    """A run whose rounds are over.

    Attributes:
        name: what its lines begin with.
        workspaces: where server and sites stored what they have of it.
        model: the file with the global model, see :func:`.scored_model`.
        which: which of the run's models it is.
        settings: that it ran with.
        federation: folder of its data.
        sites: its sites.
        has_test_set: whether the server's test set is among the data.
    """

    name: RunName
    workspaces: Path
    model: Path
    which: FinalModel
    settings: RunSettings
    federation: Path
    sites: Sequence[str]
    has_test_set: bool = True


def write_case_results(run: FinishedRun, out: Path, metrics: Path) -> None:
    """Score a run's model case by case, and write `results.csv`, `results_rounds.csv` and `calibration.json`.

    The server's test set is scored with the global model; of a method without one, with every site's own. A site's own
    cases are its list `testing`, else `validation` unless this has chosen the model. They are scored with the site's
    own model, of a method without such with the global one.

    Args:
        run: the run.
        out: the output folder.
        metrics: folder with the records of its rounds.

    Raises:
        DataError: if data cannot be used.
    """
    rows: list[ResultRow] = []
    calibration: list[Calibration] = []
    classes: tuple[str, ...] = ()
    tolerance = run.settings.nsd_tolerance if isinstance(run.settings, FedAvgSettings) else math.nan
    for model_name, model, data, list_name in _scored(run):
        common = {"site": data.site, "model": model_name, "list_name": list_name, "nsd_tolerance": tolerance}
        classes = classes or data.classes
        of_data, bins = _rows(run, model, data, common)
        rows += of_data
        calibration.append(Calibration(data.site, model_name, bins))
    write_calibration(out / CALIBRATION_FILE, calibration, run.settings.task)
    rounds = round_lines(run.name, read_metrics(metrics), classes)
    write_results(out / RESULTS_FILE, rows, {run.name.run: run.which}, rounds)


def _scored(run: FinishedRun) -> Iterator[tuple[str, nn.Module, SiteData, str]]:
    """The models, by name, and the cases that each is scored on, with the name of their list."""
    settings, sites = run.settings, sorted(run.sites, key=natural_order)
    own: dict[str, nn.Module] = {}
    shared = None
    if isinstance(settings, PersonalSettings):
        own = {site: model for site in sites if (model := local_model(run.workspaces, site, settings)) is not None}
    if not isinstance(settings, PersonalSettings) or settings.has_global_model:
        shared = _global_model(run)
    test = _cases(run, TEST_FOLDER, TESTING) if run.has_test_set else None
    if test is not None:
        for name, model in own.items() if shared is None else [(GLOBAL_MODEL, shared)]:
            yield name, ready_to_compute(model), test, TESTING
    for site in sites:
        model = own.get(site, shared)
        for list_name in (TESTING, VALIDATION):
            if list_name == VALIDATION and settings.needs_validation:
                continue
            data = None if model is None else _cases(run, site, list_name)
            if model is not None and data is not None:
                yield site if site in own else GLOBAL_MODEL, ready_to_compute(model), data, list_name
                break


def _global_model(run: FinishedRun) -> nn.Module:
    model = described_network(run.settings.network)
    model.load_state_dict(torch.load(run.model, map_location="cpu", weights_only=True)["model"])
    return model


def _cases(run: FinishedRun, site: str, section: str) -> SiteData | None:
    folder = run.federation / site
    if not (folder / DESCRIPTION_FILE).is_file() or not count_cases(folder, section):
        return None
    return load_site_data(
        folder, participant_store(), section=section, site=site, consensus=run.settings.training.consensus
    )


def _rows(run: FinishedRun, model: nn.Module, data: SiteData, common: dict[str, Any]) -> tuple[list[ResultRow], Any]:
    """The lines of cases, and the calibration bins of each."""
    names = [_common(run, common, *numbers) for numbers in _numbered(run, data, common["list_name"])]
    inference = Inference.of(run.settings)
    rows: list[ResultRow] = []
    bins = []
    if run.settings.task == "classification":
        probabilities = iter(inference.class_probabilities(model, data.cases))
        for case, name in zip(data.cases, names, strict=True):
            for label in case.label.tolist():
                of_sample = next(probabilities)
                predicted = int(of_sample.argmax())
                confidence = float(of_sample[predicted])
                rows.append(classification_row(name, data.classes[label], data.classes[predicted], confidence))
                bins.append(sample_bins(of_sample[:, None], torch.tensor([label])))
        return rows, tuple(bins)
    count, tolerance = run.settings.network.num_classes, common["nsd_tolerance"]
    measured = measured_cases(model, data.cases, count, inference, data.annotated_labels, tolerance=tolerance)
    for one, name in zip(measured, names, strict=True):
        unit = PixelSize.of(one.case).unit
        rows += [segmentation_row(name, result, data.classes[result.label - 1], unit) for result in one.results]
        bins.append(one.bins)
    return rows, tuple(bins)


def _common(run: FinishedRun, common: dict[str, Any], case: int, patient: int) -> dict[str, Any]:
    named = {"run": run.name.run, "arm": run.name.arm, "seed": run.name.seed}
    return named | common | {"case": f"case-{case}", "patient": f"patient-{patient}"}


def _key(case: Case) -> Hashable:
    """What stays of a case when a rule makes its label of several annotations."""
    return case.image_files if case.annotations else case


def _numbered(run: FinishedRun, data: SiteData, section: str) -> Iterator[tuple[int, int]]:
    """Each case's place in the datalist and its patient's number, both from 1."""
    listed = read_datalist(run.federation / data.site / data.description.datalist).section(section)
    places = {_key(case): number for number, case in enumerate(listed, 1)}
    # Of all listed cases: a run that leaves some out has the same numbers for the others.
    units = list(dict.fromkeys(case.unit for case in listed))
    patients = {unit: number for number, unit in enumerate(units, 1)}
    for number, case in enumerate(data.cases, 1):
        place = number if case.files is None else places.get(_key(case.files), number)
        yield place, patients.setdefault(case.unit, len(patients) + 1)
