"""A copy of a federation in which annotators make the noise: their own labels, and their consensus as the clean one."""

import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
import torch

from ....transforms.errors import DataError, shown
from ....transforms.folded_names import composed
from ...consensus_rule import ConsensusKind
from ...seeding import derive_seed
from ..annotations import Annotation, annotator_folder
from ..consensus import majority, staple
from ..datalist import TESTING, TRAINING, VALIDATION, Case, write_datalist
from ..description import DATALIST_FILE, ClassificationDescription, SegmentationDescription
from ..federation import read_federation
from ..manifest import Manifest, read_manifest, write_manifest
from ..masks import Mask, plain_name, read_classes, turned_to, write_classes
from ..watch import Watch
from ..whole_files import private_file
from .federation_copy import ANNOTATIONS, CLEAN_LABELS, LABELS, SiteCopy, write_federation_copy

_OF_SITES = "site:"
_FEWEST = 2


class ScenarioKind(StrEnum):
    """Which cases have the label of one annotator, and which the consensus.

    Clean, noisy, ratio on all and ratio of clients are those of Bujotzek et al., *Federated Medical Image Segmentation
    under Real-World Label Noise*, 2026.
    """

    CLEAN = "clean"  # the consensus everywhere
    NOISY = "noisy"  # of every case an annotator drawn at random
    RANDOM_ONE = "random-one"  # of every site one annotator drawn at random, else the next one
    OF_SITES = "site"  # of some sites a named annotator, elsewhere the consensus
    RATIO_ON_ALL = "ROA"  # of every site a fraction of the cases is noisy
    RATIO_OF_CLIENTS = "ROC"  # a fraction of the sites is noisy, the others are clean


@dataclass(frozen=True)
class AnnotatorScenario:
    """What sites annotate.

    Attributes:
        kind: see :class:`ScenarioKind`.
        annotators: of :attr:`ScenarioKind.OF_SITES`, a site's name or number from 1 → annotator.
        ratio: noisy fraction of the cases or sites, of ROA and ROC.
        reference: what makes the clean label, majority or STAPLE.
        seed: of everything random.
        keeps_annotations: whether the copy has all annotations beside the label, for an audit of annotators.

    Example:
        >>> str(AnnotatorScenario.parse("ROA", ratio=0.25))
        'annotators ROA 0.25'
    """

    kind: ScenarioKind
    annotators: Mapping[str, str] = field(default_factory=dict)
    ratio: float = 0.5
    reference: ConsensusKind = ConsensusKind.MAJORITY
    seed: int = 0
    keeps_annotations: bool = False

    @classmethod
    def parse(cls, text: str, *, ratio: float = 0.5, reference: str = "majority", seed: int = 0) -> "AnnotatorScenario":
        """Read a scenario: a kind, or ``site:1=Ann,site-3=Bo``.

        Raises:
            DataError: if it has another form, the ratio is not between 0 and 1, or the reference is no consensus.

        >>> AnnotatorScenario.parse("site:2=Ann").annotators
        {'2': 'Ann'}
        """
        if not 0 < ratio < 1:
            raise DataError(f"--ratio: found {ratio:g}; expected a fraction between 0 and 1.")
        if reference not in (ConsensusKind.MAJORITY, ConsensusKind.STAPLE):
            raise DataError(f"--reference: found {reference!r}; expected majority or staple.")
        kinds = [kind for kind in ScenarioKind if kind is not ScenarioKind.OF_SITES]
        if text.startswith(_OF_SITES):
            parts = [part.partition("=") for part in text[len(_OF_SITES) :].split(",")]
            annotators = {site.strip(): composed(annotator.strip()) for site, _, annotator in parts}
            if len(annotators) == len(parts) and all(annotators) and all(annotators.values()):
                return cls(ScenarioKind.OF_SITES, annotators, ratio, ConsensusKind(reference), seed)
        elif text in kinds:
            return cls(ScenarioKind(text), {}, ratio, ConsensusKind(reference), seed)
        raise DataError(
            f"--scenario: found {shown(text)}; expected {', '.join(kind.value for kind in kinds)} or site:k=annotator."
        )

    def __str__(self) -> str:
        """What a description of data says of it."""
        if self.kind is ScenarioKind.OF_SITES:
            return f"annotators of {len(self.annotators)} sites"
        has_ratio = self.kind in (ScenarioKind.RATIO_ON_ALL, ScenarioKind.RATIO_OF_CLIENTS)
        return f"annotators {self.kind.value}{f' {self.ratio:g}' if has_ratio else ''}"


def write_annotator_scenario(
    source: Path, out: Path, scenario: AnnotatorScenario, *, watch: Watch | None = None
) -> None:
    """Write a copy of a federation whose training and validation labels are those of a scenario.

    Every case has the consensus of its annotators as ``clean_label``; the test set has it as its label. A case with
    fewer than two annotations has no consensus and is left out, and so is one without an annotation by the annotator
    of its site; the manifest names them.

    Args:
        source: the federation's folder; it stays as it is.
        out: the copy's folder, absent or empty; it appears when everything is written.
        scenario: the scenario.
        watch: learns which site is copied.

    Raises:
        DataError: if the federation cannot be read, the output folder holds files, masks of a case differ in shape or
            place, a named site or annotator is not there, no case of a site has several annotations, or one has been
            reviewed.

    Example:
        >>> import json, shutil
        >>> from fedannot.custom import LesionImages, read_federation, write_phantom_federation
        >>> write_phantom_federation(Path("read"), LesionImages(), num_sites=2, images_per_site=1, test_images=1)
        >>> for datalist in Path("read").glob("*/datalist.json"):
        ...     lists = json.loads(datalist.read_text())
        ...     for (case,) in lists.values():
        ...         mask = case.pop("label")
        ...         _ = shutil.copy(datalist.parent / mask, datalist.with_name("bo.png"))
        ...         _ = case.pop("clean_label", None)
        ...         case["labels"] = [{"file": mask, "annotator": "Ann"}, {"file": "bo.png", "annotator": "Bo"}]
        ...     _ = datalist.write_text(json.dumps(lists))
        >>> write_annotator_scenario(Path("read"), Path("copy"), AnnotatorScenario.parse("site:1=Ann"))
        >>> read_federation(Path("copy")).noise
        'annotators of 1 sites'
    """
    names = read_federation(source).sites
    of_sites = _annotators_of_sites(scenario, names)
    noisy_sites = _noisy_sites(scenario, names)

    def copy_site(index: int, copy: SiteCopy) -> None:
        _SiteScenario(copy, scenario, names[index] in noisy_sites, of_sites.get(names[index])).write()

    write_federation_copy(
        source,
        out,
        copy_site,
        what="" if scenario.kind is ScenarioKind.CLEAN else str(scenario),
        made=f"{scenario}, clean labels by {scenario.reference.value}, seed {scenario.seed}",
        watch=watch,
        copy_test=lambda copy: _SiteScenario(copy, scenario, is_noisy=False, annotator=None).write(is_test=True),
    )


def _annotators_of_sites(scenario: AnnotatorScenario, names: Sequence[str]) -> dict[str, str]:
    result = {}
    for key, annotator in scenario.annotators.items():
        number = int(key) if re.fullmatch(r"\d{1,6}", key) else 0
        site = key if key in names else names[number - 1] if 1 <= number <= len(names) else None
        if site is None or site in result:
            raise DataError(
                f"--scenario: found the site {shown(key)}; expected each of {', '.join(names)} once at most, or a "
                f"number from 1 to {len(names)}."
            )
        result[site] = annotator
    return result


def _noisy_sites(scenario: AnnotatorScenario, names: Sequence[str]) -> frozenset[str]:
    """The sites of which some cases have the label of one annotator."""
    if scenario.kind is not ScenarioKind.RATIO_OF_CLIENTS:
        return frozenset() if scenario.kind is ScenarioKind.CLEAN else frozenset(names)
    count = _part(scenario.ratio, len(names))
    if not 0 < count < len(names):
        raise DataError(
            f"--ratio: found {scenario.ratio:g} of {len(names)} sites, which is {count}; expected some noisy sites and "
            "some clean ones."
        )
    return frozenset(_drawn(names, count, derive_seed(scenario.seed, "annotators", "sites")))


def _part(ratio: float, number: int) -> int:
    """The number that is the nearest to a fraction, halves up."""
    return math.floor(ratio * number + 0.5)


def _drawn(values: Sequence[str], count: int, seed: int) -> list[str]:
    order = np.random.default_rng(seed).permutation(len(values))
    return [values[index] for index in order[:count]]


@dataclass
class _SiteScenario:
    """Copies one site with the labels of a scenario."""

    copy: SiteCopy
    scenario: AnnotatorScenario
    is_noisy: bool
    annotator: str | None

    def write(self, *, is_test: bool = False) -> None:
        """Write the copy.

        Raises:
            DataError: see :func:`write_annotator_scenario`.
        """
        self.copy.require_no_review()
        lists: dict[str, list[Case]] = {}
        for section in (TRAINING, VALIDATION, TESTING):
            if section in self.copy.datalist.cases:
                lists[section] = self._copied(section, is_test=is_test or section == TESTING)
        if not any(lists.values()):
            reason = f"; {self.copy.left_out[0][1]}" if self.copy.left_out else ""
            raise DataError(
                f"Site {self.copy.site}: found no case with annotations by two annotators at least that can be used"
                f"{reason}"
            )
        write_datalist(self.copy.target / DATALIST_FILE, lists)
        before = read_manifest(self.copy.source)
        write_manifest(
            self.copy.target,
            Manifest(
                made=str(self.scenario),
                seed=self.scenario.seed,
                excluded=tuple(self.copy.left_out),
                before=None if before is None else before.model_dump(mode="json"),
            ),
        )

    def _copied(self, section: str, *, is_test: bool) -> list[Case]:
        usable = self._usable(section, is_test=is_test)
        chosen = [None] * len(usable) if is_test else self._chosen(usable, section)
        return [
            self._case(case, consensus, annotation, is_test=is_test)
            for (case, consensus), annotation in zip(usable, chosen, strict=True)
        ]

    def _usable(self, section: str, *, is_test: bool) -> list[tuple[Case, Mask | int]]:
        """The cases of a list that have a consensus, with it, and an annotation by the site's annotator."""
        usable: list[tuple[Case, Mask | int]] = []
        for case in self.copy.datalist.section(section):
            wanted = None if is_test else self.annotator
            names = [annotation.annotator for annotation in case.annotations]
            if len(names) < _FEWEST:
                self.copy.leave_out(str(case.image), f"{case.image}: has no annotations by two annotators at least.")
            elif wanted is not None and wanted not in names:
                self.copy.leave_out(str(case.image), f"{case.image}: has no annotation by {shown(wanted)}.")
            else:
                usable.append((case, self._consensus(case)))
        return usable

    def _consensus(self, case: Case) -> Mask | int:
        files = [annotation.file for annotation in case.annotations]
        classes = [label for label in files if isinstance(label, int)]
        description, rule = self.copy.description, self.scenario.reference
        if isinstance(description, ClassificationDescription):
            if rule is ConsensusKind.STAPLE or len(classes) != len(files):
                raise DataError(
                    f"Site {self.copy.site}: {case.image}: found classes and the reference {rule.value}; expected "
                    "classes of all annotators, and --reference majority."
                )
            if any(not 0 <= label < len(description.classes) for label in classes):
                raise DataError(f"Site {self.copy.site}: {case.image}: found the classes {classes}; expected others.")
            return int(majority(torch.tensor([classes], dtype=torch.uint8)))
        assert isinstance(description, SegmentationDescription)
        masks = self._masks(case, description)
        stacked = np.stack([mask.classes for mask in masks])
        if rule is ConsensusKind.STAPLE:
            return Mask(staple(stacked, len(description.classes)), masks[0].affine)
        return Mask(majority(torch.from_numpy(stacked)[None])[0].numpy(), masks[0].affine)

    def _masks(self, case: Case, description: SegmentationDescription) -> list[Mask]:
        """The masks of all annotators on the grid of the first."""
        masks: list[Mask] = []
        for annotation in case.annotations:
            if not isinstance(annotation.file, Path):
                raise DataError(f"Site {self.copy.site}: {case.image}: found the class {annotation.file}, not a mask.")
            mask = read_classes(annotation.file, description)
            if masks:
                mask = turned_to(mask, masks[0].affine)
                first = masks[0]
                is_elsewhere = (
                    mask.affine is not None
                    and first.affine is not None
                    and not np.allclose(mask.affine, first.affine, atol=1e-3)
                )
                if mask.classes.shape != first.classes.shape or is_elsewhere:
                    raise DataError(
                        f"Site {self.copy.site}: {annotation.file}: found the shape {mask.classes.shape}"
                        f"{', in another place' if is_elsewhere else ''}; expected that of "
                        f"{case.annotations[0].file}, {first.classes.shape}."
                    )
            masks.append(mask)
        return masks

    def _chosen(self, usable: Sequence[tuple[Case, Mask | int]], section: str) -> list[Annotation | None]:
        """Whose annotation is the label of each case, None for the consensus."""
        kind = self.scenario.kind
        cases = [case for case, _ in usable]
        if kind is ScenarioKind.OF_SITES:
            return [None if self.annotator is None else _by(case, self.annotator) for case in cases]
        if not self.is_noisy:
            return [None] * len(cases)
        if kind is ScenarioKind.RANDOM_ONE:
            return [_by(case, self._one_of_site(case)) for case in cases]
        noisy = set(range(len(cases)))
        if kind is ScenarioKind.RATIO_ON_ALL:
            places = [str(place) for place in noisy]
            drawn = _drawn(places, _part(self.scenario.ratio, len(cases)), self._seed(section, "noisy"))
            noisy = {int(place) for place in drawn}
        return [
            case.annotations[self._seed(section, str(place)) % len(case.annotations)] if place in noisy else None
            for place, case in enumerate(cases)
        ]

    def _one_of_site(self, case: Case) -> str:
        """The annotator of the site: the first in a random order of all its annotators who has annotated the case."""
        names = sorted(
            {
                annotation.annotator
                for section in (TRAINING, VALIDATION)
                for one in self.copy.datalist.section(section)
                for annotation in one.annotations
            }
        )
        own = {annotation.annotator for annotation in case.annotations}
        order = _drawn(names, len(names), derive_seed(self.scenario.seed, self.copy.site, "annotator"))
        return next(name for name in order if name in own)

    def _seed(self, *purpose: str) -> int:
        return derive_seed(self.scenario.seed, self.copy.site, "annotators", *purpose)

    def _case(self, case: Case, consensus: Mask | int, chosen: Annotation | None, *, is_test: bool) -> Case:
        image, channels = self.copy.copy_image(case)
        clean = self._written(case, consensus, LABELS if is_test or chosen is None else CLEAN_LABELS)
        if is_test:
            return Case(image, clean, group=case.group, source=case.source, channels=channels)
        kept: tuple[Annotation, ...] = ()
        if self.scenario.keeps_annotations:
            kept = tuple(
                replace(one, file=self._copied_label(case, one, f"{ANNOTATIONS}/{annotator_folder(one.annotator)}"))
                for one in case.annotations
            )
        label: Path | int = clean
        if chosen is None:
            clean = clean if isinstance(clean, int) else self._written(case, consensus, CLEAN_LABELS)
        else:
            label = self._copied_label(case, chosen)
        annotator = None if chosen is None else chosen.annotator
        return Case(image, label, clean, case.group, case.source, annotator, channels=channels, annotations=kept)

    def _written(self, case: Case, consensus: Mask | int, kind: str) -> Path | int:
        if isinstance(consensus, int):
            return consensus
        like = case.annotations[0].file
        assert isinstance(like, Path)
        assert isinstance(self.copy.description, SegmentationDescription)
        target = self.copy.target / kind / plain_name(case.image)
        for suffix in (".png", ".nii.gz"):
            self.copy.free(target.with_name(target.name + suffix))
        return write_classes(target, consensus, like, self.copy.description)

    def _copied_label(self, case: Case, chosen: Annotation, kind: str = LABELS) -> Path | int:
        if isinstance(chosen.file, int):
            return chosen.file
        suffix = ".nii.gz" if chosen.file.name.lower().endswith(".nii.gz") else chosen.file.suffix
        target = self.copy.free(self.copy.target / kind / f"{plain_name(case.image)}{suffix}")
        return Path(shutil.copyfile(chosen.file, private_file(target)))


def _by(case: Case, annotator: str) -> Annotation:
    return next(annotation for annotation in case.annotations if annotation.annotator == annotator)
