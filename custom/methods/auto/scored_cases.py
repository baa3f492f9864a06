"""What a site scores models on in the rollback check: reviewed patients, and ones that are kept out of training."""

from collections.abc import Callable
from dataclasses import replace

from torch import nn

from ....transforms.errors import DataError
from ...annotation_bias.estimate import Estimate, sent
from ...data.datalist import REFERENCE, TRAINING, VALIDATION
from ...data.site_data import SiteData, count_cases
from ...interface.views import Answer, SiteView
from ...outbound.fields import MINIMUM_CASES
from ...seeding import derive_seed
from ...task_names import KEEP_SCORES
from .outbound import HELD_OUT_GAIN, REVIEWED_GAIN

# The score of each patient of some data by a model.
PatientScores = Callable[[nn.Module, SiteData], dict[str, float]]


def reviewed_cases(site: SiteView) -> SiteData | None:
    """Return a site's reviewed cases, None where there are none that can be used: the rest of an estimate goes on."""
    return _loaded(site, REFERENCE) if count_cases(site.locate().folder, REFERENCE) else None


def without_held_out(site: SiteView, fraction: float) -> SiteView:
    """Return the site without the training patients that it keeps to score models on; itself where it keeps none.

    Args:
        site: the site in this task.
        fraction: of its training patients; 0 for none.
    """
    if not fraction:
        return site
    # Who is never scored on held-out patients starts without scores; also below.
    from .rollback_scores import held_out_patients, only  # noqa: PLC0415

    def load(section: str) -> SiteData:
        data = site.load(section)
        if section != TRAINING:
            return data
        return only(data, held_out_patients(data.units, fraction, site), inside=False)

    return replace(site, load=load)


def held_out_cases(site: SiteView, fraction: float) -> SiteData | None:
    """Return the site's validation cases, else the training patients that it has kept; None without any.

    Args:
        site: the site, with all of its training patients.
        fraction: of these, see above.
    """
    from .rollback_scores import held_out_patients, only  # noqa: PLC0415

    if count_cases(site.locate().folder, VALIDATION):
        return _loaded(site, VALIDATION)
    data = site.load(TRAINING)
    return only(data, held_out_patients(data.units, fraction, site), inside=True)


def rollback_answer(task: str, network: nn.Module, site: SiteView, fraction: float, scores: PatientScores) -> Answer:
    """Keep how a model scores, or say by how much this one is better than that whose scores are kept.

    Args:
        task: ``keep_scores`` or ``compare_scores``.
        network: the model that came.
        site: the site, with all of its training patients.
        fraction: of these that is kept out of training.
        scores: of each patient.
    """
    from .rollback_scores import HELD_OUT, REVIEWED, keep_scores, kept_scores, paired_gain  # noqa: PLC0415

    sections = {REVIEWED: reviewed_cases(site), HELD_OUT: held_out_cases(site, fraction)}
    by_section = {
        name: scores(network, data)
        for name, data in sections.items()
        if data is not None and len(set(data.units)) >= MINIMUM_CASES
    }
    if task == KEEP_SCORES:
        keep_scores(site.run_folder, site.round_number, by_section)
        return Answer({"has_scored": bool(by_section)})
    folders = (site.run_folder, *site.earlier_folders)
    before = kept_scores(folders, site.message.get("kept_round", site.round_number))
    seed = derive_seed(site.seed, site.name, "shadow")
    gains = {
        name: _within_limits(paired_gain(before.get(name, {}), by_section.get(name, {}), seed=seed))
        for name in sections
    }
    return Answer(
        sent(REVIEWED_GAIN, [gains[REVIEWED]], calibrated=False)
        | sent(HELD_OUT_GAIN, [gains[HELD_OUT]], calibrated=False)
    )


def _within_limits(gain: Estimate) -> Estimate:
    """A gain as it may leave, from −1 to 1: of a few patients whose rare class counts much it could be more."""
    if not gain.is_known:
        return gain
    value, low, high = (min(max(number, -1.0), 1.0) for number in (gain.value, gain.low, gain.high))
    return replace(gain, value=value, low=low, high=high)


def _loaded(site: SiteView, section: str) -> SiteData | None:
    try:
        return site.load(section)
    except DataError as error:
        site.warning(f"The {'reviewed' if section == REFERENCE else section} cases do not count: {error}")
        return None
