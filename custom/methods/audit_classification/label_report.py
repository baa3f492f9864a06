"""A site scores its labels, and says what leaves of that: a share over patients, and how well wrong labels are
detected.
"""

import hashlib

import numpy as np

from ...annotation_bias.estimate import Estimate
from ...audit.calibration import Calibration
from ...audit.examined import entropy
from ...audit.findings import AuditedCase, Finding, KindResult
from ...audit.kind_names import CLASSIFICATION_KINDS
from ...data.datalist import TRAINING
from ...data.site_data import SiteData
from ...interface.views import Answer, SiteView
from ...seeding import derive_seed
from ..audit.reference_models import ReferenceModels
from ..audit.site_report import site_report
from ..auto_classification.confident_samples import estimate_noise_level
from ..auto_classification.outbound import NOISE_LEVEL
from .label_calibration import calibrate_scores
from .label_scores import LabelScores, PredictedLabels, predicted_labels, score_labels
from .leaving_annotators import label_annotators_answer
from .settings import AuditClassificationSettings
from .thresholds import THRESHOLDS

_KIND = CLASSIFICATION_KINDS[0]


def noise_level(predicted: PredictedLabels, site: SiteView, settings: AuditClassificationSettings) -> Estimate:
    """Return the fraction of the site's labels that are wrong, as it stays at the site.

    Args:
        predicted: its labels.
        site: the site.
        settings: the job's.
    """
    seed = derive_seed(site.seed, site.name, site.round_number, NOISE_LEVEL)
    return estimate_noise_level(
        predicted.balanced, predicted.labels, predicted.units, settings.confident_fraction, seed=seed
    )


def label_report(models: ReferenceModels, site: SiteView, settings: AuditClassificationSettings) -> Answer:
    """Audit a site's labels, write what is found into the run's folder, and return what leaves: shares.

    Figures of annotators leave as well if the job asks for them.

    Args:
        models: the reference models.
        site: the site.
        settings: the job's.
    """
    data, data_folder = site.load(TRAINING), site.locate().folder
    predicted = predicted_labels(models, data, settings)
    scored = score_labels(predicted.with_look_alikes, predicted.labels)
    seed, share = derive_seed(site.seed, site.name, _KIND), noise_level(predicted, site, settings).value
    calibration = calibrate_scores(predicted.with_look_alikes, predicted.labels, predicted.units, share, seed=seed)
    cases = [
        _audited(index, data, predicted, scored, calibration, case.image_name(data_folder))
        for index, case in enumerate(data.cases)
    ]
    worst_first = sorted(cases, key=lambda case: (-case.score, -case.disagreement, case.image))
    annotators, leaving = label_annotators_answer(data, site, settings)
    result = (worst_first, [_kind_result(calibration, cases)])
    answer = site_report(
        site, data, models, settings, result, kinds=CLASSIFICATION_KINDS, unit=None, annotators=annotators
    )
    return Answer({**answer.fields, **leaving})


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
    predicted: PredictedLabels,
    scored: LabelScores,
    calibration: Calibration,
    image: str,
) -> AuditedCase:
    """A case with the finding that its label is wrong, where another class is more probable."""
    case, said = data.cases[index], predicted.probabilities[index]
    given, score = data.classes[int(predicted.labels[index])], float(scored.scores[index])
    disagreement, uncertainty = float(np.clip(1 - said[predicted.labels[index]], 0, 1)), float(entropy(said, axis=0))
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
                    "given_probability": float(said[predicted.labels[index]]),
                    "other_probability": float(said[other]),
                },
            )
        )
    return AuditedCase(
        image=image,
        label=given,
        unit=case.unit,
        annotator=None if case.files is None else case.files.annotator,
        several_annotators=() if case.files is None else tuple(one.annotator for one in case.files.annotations),
        disagreement=disagreement,
        uncertainty=uncertainty,
        findings=tuple(findings),
    )
