"""A site scores its labels, and says what leaves of that: a share over patients, and how well wrong labels are told."""

import hashlib

import numpy as np

from ...audit.calibration import Calibration
from ...audit.examined import entropy
from ...audit.findings import AuditedCase, Finding, KindResult
from ...audit.kind_names import CLASSIFICATION_KINDS
from ...channel.estimate import Estimate
from ...data.datalist import TRAINING
from ...data.site_data import SiteData
from ...interface.views import Answer, SiteView
from ...seeding import derive_seed
from ..audit.judges import Judges
from ..audit.site_report import site_report
from ..auto_classification.outbound import NOISE_LEVEL
from ..auto_classification.sure_samples import estimate_noise_level
from .label_calibration import calibrate_scores
from .label_scores import JudgedLabels, LabelScores, judged_labels, score_labels
from .settings import AuditClassificationSettings
from .thresholds import THRESHOLDS

_KIND = CLASSIFICATION_KINDS[0]


def noise_level(judged: JudgedLabels, site: SiteView, settings: AuditClassificationSettings) -> Estimate:
    """Return the share of the site's labels that are wrong, as it stays at the site.

    Args:
        judged: its labels.
        site: the site.
        settings: the job's.
    """
    seed = derive_seed(site.seed, site.name, site.round_number, NOISE_LEVEL)
    return estimate_noise_level(judged.balanced, judged.labels, judged.units, settings.surest, seed=seed)


def label_report(judges: Judges, site: SiteView, settings: AuditClassificationSettings) -> Answer:
    """Audit a site's labels, write what is found into the run's folder, and return shares; these alone leave.

    Args:
        judges: the models that judge.
        site: the site.
        settings: the job's.
    """
    data, data_folder = site.load(TRAINING), site.locate().folder
    judged = judged_labels(judges, data, settings)
    scored = score_labels(judged.with_look_alikes, judged.labels)
    seed, share = derive_seed(site.seed, site.name, _KIND), noise_level(judged, site, settings).value
    calibration = calibrate_scores(judged.with_look_alikes, judged.labels, judged.units, share, seed=seed)
    cases = [
        _audited(index, data, judged, scored, calibration, case.image_name(data_folder))
        for index, case in enumerate(data.cases)
    ]
    worst_first = sorted(cases, key=lambda case: (-case.score, -case.disagreement, case.image))
    found = (worst_first, [_kind_result(calibration, cases)])
    return site_report(site, data, judges, settings, found, kinds=CLASSIFICATION_KINDS, unit=None)


def _kind_result(calibration: Calibration, cases: list[AuditedCase]) -> KindResult:
    count = sum(bool(case.findings) for case in cases)
    return KindResult(
        kind=_KIND,
        auroc=calibration.auroc,
        patients=calibration.patients,
        num_cases=count,
        num_findings=count,
    )


def _audited(
    index: int,
    data: SiteData,
    judged: JudgedLabels,
    scored: LabelScores,
    calibration: Calibration,
    image: str,
) -> AuditedCase:
    """A case with the finding that its label is wrong, where another class is more probable."""
    case, said = data.cases[index], judged.probabilities[index]
    given, score = data.classes[int(judged.labels[index])], float(scored.scores[index])
    disagreement, uncertainty = float(np.clip(1 - said[judged.labels[index]], 0, 1)), float(entropy(said, axis=0))
    findings = []
    if score >= THRESHOLDS.doubted_score:
        other = int(scored.others[index])
        findings.append(
            Finding(
                id=hashlib.sha256(f"{_KIND}/{image}".encode()).hexdigest()[:16],
                kind=_KIND,
                classes=(given, data.classes[other]),
                score=score,
                probability=calibration.probability(score),
                disagreement=disagreement,
                uncertainty=uncertainty,
                figures={
                    "given_probability": float(said[judged.labels[index]]),
                    "other_probability": float(said[other]),
                },
            )
        )
    return AuditedCase(
        image=image,
        label=given,
        unit=case.unit,
        annotator=None if case.files is None else case.files.annotator,
        disagreement=disagreement,
        uncertainty=uncertainty,
        findings=tuple(findings),
    )
