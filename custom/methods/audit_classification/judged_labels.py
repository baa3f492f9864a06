"""What the models of an audit say of a site's images, each of the patients that it judges."""

from dataclasses import dataclass, replace

import numpy as np

from ....transforms.array_types import Floats, Labels
from ...channel.judging import by_network
from ...data.site_data import SiteData
from ..audit.judges import Judges
from ..auto_classification.judgement import balanced, judged_probabilities
from .label_scores import with_look_alikes
from .settings import AuditClassificationSettings


@dataclass(frozen=True)
class JudgedLabels:
    """Labels with what is said of their samples; they stay at the site.

    Attributes:
        probabilities: of classes, means over views, ``(N, C)``.
        balanced: those in which rare classes have their due, likewise, for the noise level.
        with_look_alikes: those times the root of what look-alikes say, likewise, for the scores.
        labels: given, ``(N,)``.
        units: patient of each sample.
    """

    probabilities: Floats
    balanced: Floats
    with_look_alikes: Floats
    labels: Labels
    units: tuple[str, ...]


def judged_labels(judges: Judges, data: SiteData, settings: AuditClassificationSettings) -> JudgedLabels:
    """Judge all samples, those of one model together.

    Args:
        judges: the models.
        data: the site's cases.
        settings: the job's.
    """
    said = np.zeros((len(data.cases), settings.network.num_classes))
    for network, indices in by_network(data.cases, judges.network_of):
        own = replace(data, cases=tuple(data.cases[index] for index in indices))
        said[indices] = judged_probabilities(network, own, judges.inference, settings.training).numpy()
    labels = data.labels.numpy().astype(np.int64)
    together = with_look_alikes(said, labels, data.units)
    return JudgedLabels(said, balanced(said, labels), together, labels, data.units)
