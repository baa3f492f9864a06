"""Whether a site's images are of another kind than most sites': then a model of all cannot predict its contours alone.

Every two sites are compared by what they say of their images (:mod:`image_features`), feature by feature. A site stays
in as long as more than half of all sites, itself among them, have images like its own.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from ...transforms.array_types import Floats
from .feature_names import FEATURES
from .image_features import ImageStatistics
from .statuses import Evidence, EvidenceCode
from .thresholds import THRESHOLDS


@dataclass(frozen=True)
class DomainCheck:
    """What a site's images say of whether a model of all sites can predict it.

    Attributes:
        out_of_domain: whether they are of another kind than those of half of the sites or more, or unknown.
        score: how well a case of the site is distinguished from one of another site by the most telling feature, 0.5
            where by none: what half of the sites reach (AUROC of normal distributions); NaN where unknown.
        alike: the other sites with images like its own, sorted.
        evidence: what that rests on.
    """

    out_of_domain: bool
    score: float
    alike: tuple[str, ...]
    evidence: Evidence

    @property
    def is_known(self) -> bool:
        """Whether the site's images were compared with any other site's."""
        return not math.isnan(self.score)


def check_domains(
    statistics: Mapping[str, ImageStatistics], *, level: float = THRESHOLDS.domain_level
) -> dict[str, DomainCheck]:
    """Decide of every site whether its images are of another kind than most sites'.

    Two sites are distinguished if a t-test of the means of any feature, corrected for their number (Bonferroni), is at
    most the level, and the feature tells their cases apart with an AUROC of 0.7 or more. A site is out of domain unless
    it and those like it are more than half of the sites with statistics. So where there are two kinds of equal number,
    or many kinds, every site is out of domain.

    Args:
        statistics: of every site; those without are out of domain and do not count.
        level: of the comparison of two sites.

    Raises:
        ValueError: when the level is out of range.

    Example:
        >>> many = len(FEATURES)
        >>> means = {"a": 0.0, "b": 0.1, "c": 5.0}
        >>> sites = {site: ImageStatistics(12, (mean,) * many, (1.0,) * many) for site, mean in means.items()}
        >>> {site: check.out_of_domain for site, check in check_domains(sites).items()}
        {'a': False, 'b': False, 'c': True}
    """
    if not 0 < level < 1:
        raise ValueError(f"Expected a level between 0 and 1, but got {level=}.")
    known = sorted(site for site in statistics if statistics[site].is_known)
    aurocs = _distinguished([statistics[site] for site in known], level) if len(known) > 1 else None
    result = {}
    for site in sorted(statistics):
        if aurocs is None or site not in known:
            result[site] = DomainCheck(True, math.nan, (), _why_unknown(is_alone=site in known))
        else:
            result[site] = _verdict(known, known.index(site), aurocs[known.index(site)])
    return result


def _distinguished(statistics: list[ImageStatistics], level: float) -> Floats:
    """AUROC of each feature between every two sites ``(K, K, D)``, 0.5 where it does not tell them apart."""
    patients = np.array([statistic.patients for statistic in statistics])
    means = np.array([statistic.means for statistic in statistics])
    deviations = np.maximum([statistic.deviations for statistic in statistics], THRESHOLDS.min_feature_deviation)
    counts = patients[:, None, None], patients[None, :, None]
    test: Any = stats.ttest_ind_from_stats(
        means[:, None], deviations[:, None], counts[0], means[None], deviations[None], counts[1]
    )
    # The statistic is the difference of the means in standard errors; this is it in standard deviations.
    effect = np.abs(test.statistic) * np.sqrt(1 / counts[0] + 1 / counts[1])
    auroc = special.ndtr(effect / math.sqrt(2))
    return np.where((test.pvalue * len(FEATURES) <= level) & (auroc >= THRESHOLDS.min_domain_auroc), auroc, 0.5)


def _verdict(sites: list[str], index: int, aurocs: Floats) -> DomainCheck:
    """The verdict on one of the sites from its AUROCs against each ``(K, D)``."""
    best = aurocs.max(axis=1)
    unlike = best > 0.5
    alike = tuple(site for other, site in enumerate(sites) if not unlike[other] and other != index)
    # The site is unlike at least so many where it is out of domain, and the score is above 0.5 just then.
    half = (len(sites) + 1) // 2
    out_of_domain = bool(np.count_nonzero(unlike) >= half)
    score = float(np.sort(best)[-half])
    others = len(sites) - 1
    if not out_of_domain:
        like = Evidence(EvidenceCode.IMAGES_ALIKE, {"alike": len(alike), "others": others})
        return DomainCheck(False, score, alike, like)
    feature = Counter(FEATURES[index] for index in aurocs[unlike].argmax(axis=1)).most_common(1)[0][0]
    numbers = {"unlike": others - len(alike), "others": others, "auroc": score}
    return DomainCheck(True, score, alike, Evidence(EvidenceCode.IMAGES_DIFFER, numbers, {"feature": feature}))


def _why_unknown(*, is_alone: bool) -> Evidence:
    return Evidence(EvidenceCode.IMAGES_ALONE if is_alone else EvidenceCode.IMAGES_UNKNOWN)
