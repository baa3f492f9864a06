"""The audit of one site: every case measured by every kind of problem, scored next to injected errors, written down."""

from collections.abc import Callable
from pathlib import Path

from torch import nn

from ..data.site_data import LoadedCase, SiteData
from ..data.whole_files import private_folder
from ..evaluation.inference import Inference
from .findings import CASES_FOLDER, AuditedCase, KindResult
from .measuring import measured_site
from .reporting import audited_cases, kind_results

PredictorOf = Callable[[LoadedCase], nn.Module]


def audit_site(
    data: SiteData,
    predictor_of: PredictorOf,
    inference: Inference,
    data_folder: Path,
    out: Path,
    *,
    seed: int,
) -> tuple[tuple[AuditedCase, ...], tuple[KindResult, ...]]:
    """Audit a site's annotations, and write the arrays of cases with findings to ``cases`` in the output folder.

    Cases are measured one at a time, so that memory is bounded by the largest one and by compressed predictions.
    Nothing leaves the site.

    Args:
        data: the site's cases with their given annotations.
        predictor_of: the network that predicts a case, one that has not learnt its annotation; of few networks each is
            asked for its own cases together. Networks are run in evaluation mode.
        inference: how networks are run.
        data_folder: the folder of the site's data, for the names of files.
        out: the folder of the audit; it is made, and its arrays of an earlier audit go.
        seed: decides the injected errors and the patients that get them.

    Returns:
        All cases, the worst first, and what was looked for.
    """
    measured = measured_site(data, predictor_of, inference, seed=seed)
    folder = out / CASES_FOLDER
    private_folder(folder)
    for file in folder.glob("*.npz"):
        file.unlink()
    return audited_cases(measured, data, data_folder, out), kind_results(measured, data)
