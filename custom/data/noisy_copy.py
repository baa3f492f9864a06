"""A copy of a federation whose training and validation labels have contour noise; the clean ones are kept beside."""

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...transforms.errors import DataError
from ...transforms.federation_noise import ContourNoise
from ...transforms.image_files import map_mask, read_mask
from .datalist import Case, read_datalist, write_datalist
from .federation import (
    DATALIST_FILE,
    DESCRIPTION_FILE,
    TEST_FOLDER,
    FederationDescription,
    read_federation,
    read_site_description,
    write_federation,
    write_site_description,
)
from .folders import new_folder
from .manifest import Manifest, measured_noise, read_manifest, write_manifest
from .noise_choice import NoiseChoice, contour_noise_seed

_LOGGER = logging.getLogger(__name__)

_Pair = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def add_contour_noise(source: Path, out: Path, choice: NoiseChoice, *, seed: int = 0) -> None:
    """Write a copy of a federation with contour noise on every site's training and validation labels.

    Noise is drawn class by class at each mask's own size. A case that has a clean label already keeps it, so that noise
    adds up. Masks that cannot be read are copied as they are. The test set stays untouched; nothing is changed in the
    source.

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
            self.description = read_site_description(source)
            self.sections = read_datalist(source / self.description.datalist)
        except DataError as error:
            raise DataError(f"Site {site}: {error}") from error
        target.mkdir()
        # The copy has its datalist in its own folder, wherever the source has it.
        write_site_description(target, self.description.model_copy(update={"datalist": DATALIST_FILE}))

    def unchanged(self) -> None:
        """Copy everything as it is."""
        copied = {
            section: [
                Case(
                    image=self._copy(case.image, "images"),
                    label=self._copy(case.label, "labels"),
                    clean_label=None if case.clean_label is None else self._copy(case.clean_label, "clean_labels"),
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
        excluded: list[tuple[str, str]] = []
        copied: dict[str, list[Case]] = {}
        for section, cases in self.sections.items():
            copied[section] = []
            for case in cases:
                clean_file = self._copy(case.clean_label or case.label, "clean_labels")
                try:
                    mask_seed = contour_noise_seed(seed, self.site, section, case.image.name)
                    noisy = self._noisy_classes(case.label, noise, mask_seed)
                    pairs.append((noisy, self._classes(clean_file)))
                    label = self._write_label(noisy, case.label)
                except DataError as error:
                    excluded.append((str(case.label), str(error)))
                    _LOGGER.warning("Site %s: a label is copied without noise: %s", self.site, error)
                    label = self._copy(case.label, "labels")
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

    def _noisy_classes(self, file: Path, noise: ContourNoise, seed: int) -> NDArray[np.uint8]:
        from ...transforms.contour_evolution import ContourEvolution

        evolution = ContourEvolution(noise.mean, noise.spread).set_random_state(seed=seed)
        return np.asarray(evolution(self._classes(file)))

    def _classes(self, file: Path) -> NDArray[np.uint8]:
        return map_mask(read_mask(file), self.description.labels, file)

    def _write_label(self, classes: NDArray[np.uint8], original: Path) -> Path:
        values = _values_of_classes(self.description.labels)[classes]
        target = self._free(self.target / "labels" / f"{original.stem}.png")
        Image.fromarray(values.astype(np.uint8 if values.max() <= 255 else np.uint16)).save(target)
        return target

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


def _values_of_classes(labels: Mapping[int, int]) -> NDArray[np.int64]:
    """The value in the file of every class; where several values lead to a class, the first."""
    values = np.zeros(max(labels.values()) + 1, dtype=np.int64)
    for value, label in reversed(list(labels.items())):
        values[label] = value
    return values
