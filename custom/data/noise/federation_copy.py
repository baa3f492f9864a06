"""A copy of a federation, site by site, with other annotations than the source's."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ....transforms.errors import DataError
from ....transforms.printable import printable_logger
from ..annotations import Annotation, annotator_folder
from ..datalist import REFERENCE, Case, read_datalist, write_datalist
from ..description import DATALIST_FILE, DESCRIPTION_FILE, read_site_description, write_site_description
from ..federation import TEST_FOLDER, FederationDescription, read_federation, write_federation
from ..manifest import read_manifest, write_manifest
from ..watch import Watch, watched
from ..whole_files import new_folder, private_file, private_folder

_LOGGER = printable_logger(__name__)

IMAGES, LABELS, CLEAN_LABELS, GIVEN_LABELS = "images", "labels", "clean_labels", "given_labels"
ANNOTATIONS = "annotations"


class SiteCopy:
    """Copies one site's folder; what annotations become is the caller's business.

    Args:
        source: the site's folder.
        target: the copy's; it is made.
        site: the site's name, for messages.

    Attributes:
        description: the site's description.
        datalist: its cases.
        left_out: items of the datalist that are no cases, name and reason.

    Raises:
        DataError: if the description or the datalist cannot be read.
    """

    def __init__(self, source: Path, target: Path, site: str) -> None:
        self.source, self.target, self.site = source, target, site
        try:
            self.description = read_site_description(source)
            self.datalist = read_datalist(source / self.description.datalist)
        except DataError as error:
            raise DataError(f"Site {site}: {error}") from error
        self.left_out: list[tuple[str, str]] = []
        # What is copied already, by its file and folder: several cases, or lists, may have one image.
        self._copies: dict[tuple[str, str], Path] = {}
        for items in self.datalist.refused.values():
            for item in items:
                self.leave_out(item.name, item.reason)
        private_folder(target)
        # The copy has its datalist in its own folder, wherever the source has it.
        write_site_description(target, self.description.model_copy(update={"datalist": DATALIST_FILE}))

    def leave_out(self, name: str, reason: DataError | str) -> None:
        """Note an item that is not copied."""
        _LOGGER.warning("Site %s: an item is left out: %s", self.site, reason)
        self.left_out.append((name, str(reason)))

    def unchanged(self) -> None:
        """Copy everything as it is."""
        copied = {
            section: [
                Case(
                    image=image,
                    label=self.copied(case.label, LABELS),
                    clean_label=None if case.clean_label is None else self.copied(case.clean_label, CLEAN_LABELS),
                    group=case.group,
                    source=case.source,
                    annotator=case.annotator,
                    given_label=None if case.given_label is None else self.copied(case.given_label, GIVEN_LABELS),
                    channels=channels,
                    annotations=tuple(self.copied_annotation(annotation) for annotation in case.annotations),
                )
                for case in cases
                for image, channels in (self.copy_image(case),)
            ]
            for section, cases in self.datalist.cases.items()
        }
        write_datalist(self.target / DATALIST_FILE, copied)
        if (manifest := read_manifest(self.source)) is not None:
            write_manifest(self.target, manifest)

    def require_single_annotations(self) -> None:
        """Check that no case has several annotations, beside which a changed label would mean nothing.

        Raises:
            DataError: if one has.
        """
        several = [case for cases in self.datalist.cases.values() for case in cases if case.annotations]
        if several:
            raise DataError(
                f"Site {self.site}: {self.source / self.description.datalist} has {len(several)} cases with several "
                f"annotations, the first {several[0].image.name}; expected one annotation of each case. "
                "`fedannot data annotators` makes such a copy."
            )

    def require_no_review(self) -> None:
        """Check that no case was reviewed, whose annotation would be replaced.

        Raises:
            DataError: if one was.
        """
        reviewed = self.datalist.section(REFERENCE) + [
            case for cases in self.datalist.cases.values() for case in cases if case.given_label is not None
        ]
        if reviewed:
            raise DataError(
                f"Site {self.site}: {self.source / self.description.datalist} has reviewed cases, the first "
                f"{reviewed[0].image.name}; expected none, since their annotations would be replaced. `fedannot audit "
                "revert FOLDER` takes a site back to the datalist before its review."
            )

    def copy_image(self, case: Case) -> tuple[Path, tuple[Path | None, ...]]:
        """Copy a case's image with all its channels, and return its file and those of its channels.

        Raises:
            DataError: as :meth:`copy`.
        """
        if not case.channels:
            return self.copy(case.image, IMAGES), ()
        channels = tuple(None if file is None else self.copy(file, IMAGES) for file in case.channels)
        return channels[case.channels.index(case.image)] or case.image, channels

    def copied_annotation(self, annotation: Annotation) -> Annotation:
        """Copy one of several annotations; the file's place keeps them apart."""
        file = annotation.file
        if isinstance(file, int):
            return annotation
        return replace(annotation, file=self.copy(file, f"{ANNOTATIONS}/{annotator_folder(annotation.annotator)}"))

    def copied(self, label: Path | int, kind: str) -> Path | int:
        """Copy an annotation; the index of a class is itself."""
        return self.copy(label, kind) if isinstance(label, Path) else label

    def copy(self, file: Path, kind: str) -> Path:
        """Copy a file into a folder of the copy; one that does not exist stays missing and is left out on loading.

        Raises:
            DataError: if another file of that name is there already.
        """
        key = (os.path.normpath(file), kind)
        if key not in self._copies:
            target = self.free(self.target / kind / file.name)
            if file.is_file():
                shutil.copyfile(file, private_file(target))
            self._copies[key] = target
        return self._copies[key]

    def free(self, target: Path) -> Path:
        """Return a file of the copy that is still to be written, and make its folder.

        Raises:
            DataError: if it exists.
        """
        if target.exists():
            raise DataError(
                f"Site {self.site}: found several files named {target.name!r} among its {target.parent.name}; "
                "expected different names."
            )
        private_folder(target.parent)
        return target


def write_federation_copy(
    source: Path,
    out: Path,
    copy_site: Callable[[int, SiteCopy], None],
    *,
    what: str,
    made: str,
    watch: Watch | None = None,
    copy_test: Callable[[SiteCopy], None] = SiteCopy.unchanged,
) -> None:
    """Write a copy of a federation under the name of its folder; its test set stays as it is unless somebody copies it.

    Args:
        source: the federation's folder.
        out: the copy's folder, absent or empty; it appears when everything is written.
        copy_site: copies one site, given its number from 0.
        what: what is wrong with the copy's annotations, for its description.
        made: how it was made, as above.
        watch: learns which site is copied.
        copy_test: copies the test set.

    Raises:
        DataError: if the federation cannot be read or the output folder holds files.
    """
    federation = read_federation(source)
    with new_folder(out) as folder:
        for index, site in watched(list(enumerate(federation.sites)), "Copying the sites", watch):
            copy_site(index, SiteCopy(source / site, folder / site, site))
        if (source / TEST_FOLDER / DESCRIPTION_FILE).is_file():
            copy_test(SiteCopy(source / TEST_FOLDER, folder / TEST_FOLDER, TEST_FOLDER))
        noise = "; ".join(text for text in (federation.noise, what) if text)
        before = f"{federation.made}; " if federation.made else ""
        values = federation.model_dump() | {"name": out.resolve().name, "noise": noise or None, "made": before + made}
        write_federation(folder, FederationDescription.model_validate(values))
