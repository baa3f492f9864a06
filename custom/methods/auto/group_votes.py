"""The groups of sites' annotators where the server compares sites: a site has one vote, and images of one kind."""

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ...annotation_bias.image_features import ImageStatistics
from ...annotation_bias.votes import middle, middles
from .answers import BiasReport


@dataclass(frozen=True)
class GroupVotes:
    """Which groups are of which site.

    Attributes:
        site_of: by the name of a group its site; empty where sites stand for themselves.
    """

    site_of: Mapping[str, str] = field(default_factory=dict)

    def site(self, name: str) -> str:
        """Return the site of a group; a site's own name stays."""
        return self.site_of.get(name, name)

    def votes(self, names: Collection[str]) -> dict[str, float]:
        """Return by name the votes of these groups; those of a site are 1 together."""
        groups = Counter(map(self.site, names))
        return {name: 1 / groups[self.site(name)] for name in names}

    def images(self, answers: Mapping[str, BiasReport]) -> dict[str, ImageStatistics]:
        """Return by site what its images are like, over the patients of all its groups.

        A scanner is of a site. Whether a model can predict its images is decided of the site, once.
        """
        by_site: dict[str, list[ImageStatistics]] = {}
        for name, answer in answers.items():
            by_site.setdefault(self.site(name), []).append(answer.images)
        return {site: images[0] if len(images) == 1 else _pooled(images) for site, images in by_site.items()}

    def one_of_each(self, answers: Mapping[str, BiasReport], label: int) -> dict[str, BiasReport]:
        """Return of each site the group that stands for it where sites choose the reference level of a class.

        It is the middle one by patients. Of two it is that nearer to the middle of all sites, in which each has one
        vote. Its images are those of the site.

        Args:
            answers: by group.
            label: the class.
        """
        if not self.site_of:
            return dict(answers)
        offsets = {name: answer.offset[label - 1] for name, answer in answers.items()}
        known = sorted(name for name in answers if offsets[name].is_known)
        votes = self.votes(known)
        of_all = middle([offsets[name].value for name in known], list(votes.values())) if known else math.nan
        images, result = self.images(answers), {}
        for site in sorted(images):
            own = [name for name in known if self.site(name) == site]
            if own:
                values = [offsets[name].value for name in own]
                both = middles(values, [float(offsets[name].patients) for name in own])
                value = min(both, key=lambda one: abs(one - of_all))
                name = own[values.index(value)]
            else:
                name = min(name for name in answers if self.site(name) == site)
            result[name] = replace(answers[name], images=images[site])
        return result


def _pooled(statistics: Collection[ImageStatistics]) -> ImageStatistics:
    """Mean and standard deviation over the patients of several groups together; unknown without any."""
    known = [one for one in statistics if one.is_known]
    if not known:
        return ImageStatistics.unknown()
    patients = np.array([one.patients for one in known], dtype=np.float64)[:, None]
    means, deviations = (np.array([getattr(one, name) for one in known]) for name in ("means", "deviations"))
    total = float(patients.sum())
    mean = (patients * means).sum(axis=0) / total
    squares = ((patients - 1) * deviations**2 + patients * (means - mean) ** 2).sum(axis=0)
    deviation = np.sqrt(squares / (total - 1))
    return ImageStatistics(round(total), tuple(mean.tolist()), tuple(deviation.tolist()))
