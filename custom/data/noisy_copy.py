"""A copy of a federation whose training and validation labels have contour noise; the clean ones are kept beside."""

import logging
import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...transforms.errors import DataError
from ...transforms.federation_noise import ContourNoise
from .datalist import Case, Datalist, read_datalist, write_datalist
from .description import (
    DATALIST_FILE,
    DESCRIPTION_FILE,
    SegmentationDescription,
    read_site_description,
    write_site_description,
)
from .federation import TEST_FOLDER, FederationDescription, read_federation, write_federation
from .folders import new_folder
from .manifest import Manifest, measured_noise, read_manifest, write_manifest
from .masks import Mask, annotated_axis, plain_name, read_classes, write_classes
from .noise_choice import NoiseChoice, contour_noise_seed

_LOGGER = logging.getLogger(__name__)

_Pair = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def add_contour_noise(source: Path, out: Path, choice: NoiseChoice, *, seed: int = 0) -> None:
    """Write a copy of a federation with contour noise on every site's training and validation labels.

    Noise is drawn class by class at each mask's own size, in volumes slice by slice. A case that has a clean label
    already keeps it, so that noise adds up. Masks that cannot be read are copied as they are; items of a datalist that
    are no case with a mask are left out. Both are listed in the manifest. The test set stays untouched; nothing is
    changed in the source.

    Args:
        source: the federation's folder.
        out: the copy's folder, absent or empty; it appears when everything is written.
        choice: which noise.
        seed: seed of the sites' noise and of every mask's.

    Raises:
        DataError: if the federation cannot be read or the output folder holds files.
    """
    federation = read_federation(source)
    drawn = choice.draw(len(federation.sites), seed)
    with new_folder(out) as folder:
        for site, noise in zip(federation.sites, drawn, strict=True):
            _SiteCopy(source / site, folder / site, site).with_noise(noise, choice, seed)
        if (source / TEST_FOLDER / DESCRIPTION_FILE).is_file():
            _SiteCopy(source / TEST_FOLDER, folder / TEST_FOLDER, TEST_FOLDER).unchanged()
        how = f"{', exact count' if choice.exact else ''}"
        how += "" if choice.stratified is None else f", stratified from {choice.stratified}"
        before = f"{federation.made}; " if federation.made else ""
        noise_text = "; ".join(text for text in (federation.noise, choice.model) if text)
        made = f"{before}contour noise {choice.model}{how}, seed {seed}"
        values = federation.model_dump() | {"noise": noise_text, "made": made}
        write_federation(folder, FederationDescription.model_validate(values))


class _SiteCopy:
    """Copies one site's folder; labels on the way may become noisy."""

    def __init__(self, source: Path, target: Path, site: str) -> None:
        self.source = source
        self.target = target
        self.site = site
        try:
            description = read_site_description(source)
            datalist = read_datalist(source / description.datalist)
        except DataError as error:
            raise DataError(f"Site {site}: {error}") from error
        if not isinstance(description, SegmentationDescription):
            raise DataError(
                f"Site {site}: {source / DESCRIPTION_FILE} has the pipeline {description.pipeline!r}; contour noise "
                "needs masks."
            )
        self.description = description
        self.sections, self.left_out = _cases_with_masks(datalist)
        for _, reason in self.left_out:
            _LOGGER.warning("Site %s: an item is left out: %s", site, reason)
        target.mkdir()
        # The copy has its datalist in its own folder, wherever the source has it.
        write_site_description(target, self.description.model_copy(update={"datalist": DATALIST_FILE}))

    def unchanged(self) -> None:
        """Copy everything as it is."""
        copied = {
            section: [
                Case(
                    image=self._copy(case.image, "images"),
                    label=self._copied(case.label, "labels"),
                    clean_label=None if case.clean_label is None else self._copied(case.clean_label, "clean_labels"),
                    group=case.group,
                    source=case.source,
                )
                for case in cases
            ]
            for section, cases in self.sections.items()
        }
        write_datalist(self.target / DATALIST_FILE, copied)
        if (manifest := read_manifest(self.source)) is not None:
            write_manifest(self.target, manifest)

    def with_noise(self, noise: ContourNoise, choice: NoiseChoice, seed: int) -> None:
        """Copy with noisy labels, and write what the noise did to the manifest."""
        pairs: list[_Pair] = []
        excluded = list(self.left_out)
        copied: dict[str, list[Case]] = {}
        for section, cases in self.sections.items():
            copied[section] = []
            for case in cases:
                clean_file = self._copied(case.clean_label or case.label, "clean_labels")
                try:
                    mask_seed = contour_noise_seed(seed, self.site, section, case.image.name)
                    noisy = self._noisy(case, noise, mask_seed)
                    pairs.append((noisy.classes, read_classes(clean_file, self.description).classes))
                    label = self._written(noisy, case)
                except DataError as error:
                    excluded.append((str(case.label), str(error)))
                    _LOGGER.warning("Site %s: a label is copied without noise: %s", self.site, error)
                    label = self._copied(case.label, "labels")
                image = self._copy(case.image, "images")
                copied[section].append(Case(image, label, clean_file, case.group, case.source))
        write_datalist(self.target / DATALIST_FILE, copied)
        measured = measured_noise(pairs, noise, model=choice.model, exact=choice.exact, stratified=choice.stratified)
        before = read_manifest(self.source)
        manifest = Manifest(
            made="contour noise",
            seed=seed,
            noise=measured,
            excluded=tuple(excluded),
            before=None if before is None else before.model_dump(mode="json"),
        )
        write_manifest(self.target, manifest)

    def _noisy(self, case: Case, noise: ContourNoise, seed: int) -> Mask:
        """The mask of a case with noise; a volume's is drawn slice by slice, as an annotator draws."""
        from ...transforms.contour_evolution import ContourEvolution

        mask = read_classes(_file(case.label), self.description)
        evolution = ContourEvolution(noise.mean, noise.spread).set_random_state(seed=seed)
        if mask.affine is None:
            return Mask(np.asarray(evolution(mask.classes)))
        axis = annotated_axis(mask, self.description)
        slices_last = np.ascontiguousarray(np.moveaxis(mask.classes, axis, -1))
        return Mask(np.moveaxis(np.asarray(evolution(slices_last)), -1, axis), mask.affine)

    def _written(self, mask: Mask, case: Case) -> Path:
        target = self.target / "labels" / plain_name(_file(case.label))
        for suffix in (".png", ".nii.gz"):
            self._free(target.with_name(target.name + suffix))
        return write_classes(target, mask, self.description)

    def _copied(self, label: Path | int, kind: str) -> Path:
        return self._copy(_file(label), kind)

    def _copy(self, file: Path, kind: str) -> Path:
        """Copy a file; one that does not exist stays missing and is left out where the data are loaded."""
        target = self._free(self.target / kind / file.name)
        if file.is_file():
            shutil.copyfile(file, target)
        return target

    def _free(self, target: Path) -> Path:
        if target.exists():
            raise DataError(
                f"Site {self.site}: found several files named {target.name!r} among its {target.parent.name}; "
                "expected different names."
            )
        target.parent.mkdir(exist_ok=True)
        return target


def _cases_with_masks(datalist: Datalist) -> tuple[dict[str, list[Case]], list[tuple[str, str]]]:
    """The cases of every section whose labels are files, and of the other items the name and the reason."""
    sections: dict[str, list[Case]] = {}
    left_out = [(item.name, item.reason) for items in datalist.refused.values() for item in items]
    for section, cases in datalist.cases.items():
        sections[section] = []
        for case in cases:
            numbers = [label for label in (case.label, case.clean_label) if isinstance(label, int)]
            if numbers:
                left_out.append((str(case.image), f"{case.image}: found the label {numbers[0]}; expected a mask file."))
            else:
                sections[section].append(case)
    return sections, left_out


def _file(label: Path | int) -> Path:
    assert isinstance(label, Path)
    return label
