"""What a site has annotated itself, apart from what reviews have made of it since."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ..data.site_data import LoadedCase


@dataclass(frozen=True)
class GivenAnnotations:
    """Which annotations say how a site annotates; one rule for every method. Nothing of it leaves the site.

    A training case is settled if its annotation in use is that of a reviewed case: a review has replaced the given
    mask, or kept it. The question is how the site annotates the other cases. These answer it, and so do the given masks
    of settled cases. A settled case whose given mask is not known says nothing: its annotation is the reviewer's. If
    all cases are settled, none is left to ask about, and the annotations in use count.

    Attributes:
        training: the training cases, with their annotations in use.
        settled: for each of these whether it is settled.
        before: for each of these the mask that a review has replaced or kept, None where none is known.
        pairs: a given and a reviewed version of the same image, the given one first.
        not_compared: reviewed cases without a known given version; they count for the reference level alone.
    """

    training: tuple[LoadedCase, ...]
    settled: tuple[bool, ...]
    before: tuple[torch.Tensor | None, ...]
    pairs: tuple[tuple[LoadedCase, LoadedCase], ...]
    not_compared: int

    @classmethod
    def of(cls, training: Sequence[LoadedCase], reviewed: Sequence[LoadedCase] = ()) -> "GivenAnnotations":
        """Find the given annotations among those in use.

        Args:
            training: the training cases, with their annotations in use.
            reviewed: the reviewed cases.
        """
        by_image = _by_image(reviewed)
        reviews = [[other for other in by_image.get(_image(case), ()) if _is_same(case, other)] for case in training]
        settled = tuple(map(bool, reviews))
        before = tuple(
            next((one.given_label for one in (case, *own) if one.given_label is not None), None)
            for case, own in zip(training, reviews, strict=True)
        )
        if all(settled):
            return cls(tuple(training), settled, before, (), len(reviewed))
        of_training = _by_image(training)
        versions = [(_given_version(case, of_training.get(_image(case), ())), case) for case in reviewed]
        pairs = tuple(
            (given, case) for given, case in versions if given is not None and given.label.shape == case.label.shape
        )
        return cls(tuple(training), settled, before, pairs, len(reviewed) - len(pairs))

    def own(self, annotated: Sequence[LoadedCase] | None = None) -> list[LoadedCase]:
        """Return the training cases that say how the site annotates, reviewed ones with their given masks.

        Args:
            annotated: the training cases with other annotations, in the same order; None for those in use.
        """
        cases = self.training if annotated is None else annotated
        if all(self.settled):
            return list(cases)
        result = []
        for case, before, is_settled in zip(cases, self.before, self.settled, strict=True):
            if before is not None:
                result.append(replace(case, label=before))
            elif not is_settled:
                result.append(case)
        return result

    def compared(self, annotated: Sequence[LoadedCase] | None = None) -> list[tuple[LoadedCase, LoadedCase]]:
        """Return the pairs, in which training cases have other annotations if there are any; see :meth:`own`."""
        cases = self.training if annotated is None else annotated
        others = {id(case): other for case, other in zip(self.training, cases, strict=True)}
        return [(others.get(id(given), given), reviewed) for given, reviewed in self.pairs]


def _by_image(cases: Sequence[LoadedCase]) -> Mapping[Path | None, Sequence[LoadedCase]]:
    """Cases by their images; those without files are left out."""
    result: dict[Path | None, list[LoadedCase]] = {}
    for case in cases:
        if case.files is not None:
            result.setdefault(_image(case), []).append(case)
    return result


def _image(case: LoadedCase) -> Path | None:
    return None if case.files is None else case.files.image.resolve()


def _is_same(one: LoadedCase, other: LoadedCase) -> bool:
    """Whether two cases have the same annotation: the same file, or the same content."""
    files = [case.files.label for case in (one, other) if case.files is not None]
    paths = [file.resolve() for file in files if isinstance(file, Path)]
    return (len(paths) == 2 and paths[0] == paths[1]) or torch.equal(one.label, other.label)


def _given_version(reviewed: LoadedCase, training: Sequence[LoadedCase]) -> LoadedCase | None:
    """A reviewed case as the site gave it; None where that is not known.

    The reviewed case itself says it, or a training case of the same image. An annotation in use that is the reviewed
    one was kept or replaced; which of them, only the name of the given mask says.
    """
    for case in (reviewed, *reversed(training)):
        if case.given_label is not None:
            return replace(case, label=case.given_label)
    return next((case for case in reversed(training) if not _is_same(case, reviewed)), None)
