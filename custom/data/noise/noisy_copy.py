"""A copy of a federation whose training and validation labels are imperfect; the clean ones are kept beside."""

from collections.abc import Sequence
from pathlib import Path

from ....transforms.errors import DataError
from ....transforms.printable import printable_logger
from ..datalist import Case, write_datalist
from ..description import DATALIST_FILE, DESCRIPTION_FILE, SegmentationDescription
from ..federation import read_federation
from ..manifest import Manifest, read_manifest, write_manifest
from ..masks import Mask, plain_name, read_classes, turned_to, write_classes
from ..watch import Watch
from .choice import PROTOCOLS, NoiseChoice, check_completeness, completeness_text, protocols_of_sites
from .effect import UnchangedSite
from .federation_copy import CLEAN_LABELS, LABELS, SiteCopy, write_federation_copy
from .label_changes import ContourNoiseChange, LabelChange, MissingLesionsChange, ProtocolChange

_LOGGER = printable_logger(__name__)


def add_contour_noise(
    source: Path, out: Path, choice: NoiseChoice, *, seed: int = 0, watch: Watch | None = None
) -> None:
    """Write a copy of a federation with contour noise on every site's training and validation labels.

    Noise is drawn class by class at each mask's own size, in volumes slice by slice. A case that has a clean label
    already keeps it, so that noise adds up. Masks that cannot be read are copied as they are; items of a datalist that
    are no case with a mask are left out. Both are listed in the manifest. Reviewed cases are refused. The test set
    stays untouched; nothing is changed in the source.

    Args:
        source: the federation's folder.
        out: the copy's folder, absent or empty; it appears when everything is written.
        choice: which noise.
        seed: seed of the sites' noise and of every mask's.
        watch: learns how far it is.

    Raises:
        DataError: if the federation cannot be read, a case was reviewed, the output folder holds files, or the noise is
            too weak for the images to change anything.

    Example:
        >>> from fedannot.custom import LesionImages, NoiseChoice, read_federation, write_phantom_federation
        >>> write_phantom_federation(Path("clean"), LesionImages(), num_sites=2, images_per_site=1, test_images=1)
        >>> add_contour_noise(Path("clean"), Path("noisy"), NoiseChoice("M(25,-25,5,0.5)"))
        >>> read_federation(Path("noisy")).noise
        'M(25,-25,5,0.5)'
    """
    if not any(choice.limit):
        raise DataError(f"The noise {choice.model} moves no contour at any site; expected lengths above 0.")
    drawn = choice.draw(len(read_federation(source).sites), seed)
    how = f"{', exact count' if choice.exact else ''}"
    how += "" if choice.stratified is None else f", stratified from {choice.stratified}"
    changes = [ContourNoiseChange(noise, choice, seed) for noise in drawn]
    _write_copy(
        source, out, changes, what=choice.model, made=f"contour noise {choice.model}{how}, seed {seed}", watch=watch
    )


def leave_lesions_out(
    source: Path, out: Path, completeness: Sequence[float], *, seed: int = 0, watch: Watch | None = None
) -> None:
    """Write a copy of a federation whose sites annotate only a fraction of each case's lesions.

    Lesions are dropped in the whole mask, a volume's before it is cut into slices; see
    :class:`fedannot.transforms.noise.missing_lesions.DropLesions`. For the rest as :func:`add_contour_noise`.

    Args:
        source: the federation's folder.
        out: the copy's folder, absent or empty; it appears when everything is written.
        completeness: fraction of the lesions that stay annotated, one for every site.
        seed: seed of every mask's lesions.
        watch: learns how far it is.

    Raises:
        DataError: if the federation cannot be read, the output folder holds files, the shares cannot be used, or one
            below 1 leaves nothing out at its site.

    Example:
        >>> from fedannot.custom import LesionVolumes, read_federation, write_phantom_federation
        >>> write_phantom_federation(Path("whole"), LesionVolumes(), num_sites=2, images_per_site=1, test_images=1)
        >>> leave_lesions_out(Path("whole"), Path("incomplete"), (0.5, 1.0))
        >>> read_federation(Path("incomplete")).noise
        'completeness 0.5,1'
    """
    check_completeness(completeness, len(read_federation(source).sites))
    what = completeness_text(completeness)
    changes = [MissingLesionsChange(share, seed) for share in completeness]
    _write_copy(source, out, changes, what=what, made=f"{what}, seed {seed}", watch=watch)


def follow_protocols(source: Path, out: Path, protocols: str, *, seed: int = 0, watch: Watch | None = None) -> None:
    """Write a copy of a federation whose sites annotate by protocols of their own.

    Training labels get both parts of a site's protocol, those of other sections the systematic part alone: what a site
    keeps to validate with counts as right there. In volumes masks are drawn slice by slice; see
    :class:`fedannot.transforms.noise.follow_protocol.FollowProtocol`. For the rest as :func:`add_contour_noise`.

    Args:
        source: the federation's folder.
        out: the copy's folder, absent or empty; it appears when everything is written.
        protocols: the protocol of each site, ``0-0-C-D``, or of all.
        seed: seed of every mask's random part.
        watch: learns how far it is.

    Raises:
        DataError: if the federation cannot be read, the output folder holds files, the protocols cannot be used, or
            one changes nothing at its site.

    Example:
        >>> from fedannot.custom import Chambers, read_federation, write_phantom_federation
        >>> write_phantom_federation(Path("alike"), Chambers(), num_sites=2, images_per_site=1, test_images=1)
        >>> follow_protocols(Path("alike"), Path("followed"), "0-D(20,8)")
        >>> read_federation(Path("followed")).noise
        'protocols 0-D(20,8)'
    """
    chosen = protocols_of_sites(protocols, len(read_federation(source).sites))
    what = f"{PROTOCOLS} {protocols}"
    changes = [ProtocolChange(protocol, seed) for protocol in chosen]
    _write_copy(source, out, changes, what=what, made=f"{what}, seed {seed}", watch=watch)


def _write_copy(
    source: Path, out: Path, changes: Sequence[LabelChange], *, what: str, made: str, watch: Watch | None
) -> None:
    write_federation_copy(
        source,
        out,
        lambda index, copy: _copy_with_changed_labels(copy, changes[index]),
        what=what,
        made=made,
        watch=watch,
    )


def _copy_with_changed_labels(copy: SiteCopy, change: LabelChange) -> None:
    """Copy a site with changed labels, and write what the change did to the manifest."""
    description = copy.description
    if not isinstance(description, SegmentationDescription):
        raise DataError(
            f"Site {copy.site}: {copy.source / DESCRIPTION_FILE} has the pipeline {description.pipeline!r}; imperfect "
            "contours and missing lesions need masks."
        )
    if description.ignore:
        raise DataError(
            f"Site {copy.site}: {copy.source / DESCRIPTION_FILE} has the key 'ignore'; expected masks without ignored "
            "pixels, beside which noise would not be that of the model. Complete the masks first."
        )
    copy.require_single_annotations()
    copy.require_no_review()
    sections = _cases_with_masks(copy)
    excluded = list(copy.left_out)
    copied: dict[str, list[Case]] = {}
    for section, cases in sections.items():
        copied[section] = []
        for case in cases:
            clean_file = copy.copy(_file(case.clean_label or case.label), CLEAN_LABELS)
            try:
                given = read_classes(_file(case.label), description)
                clean = turned_to(read_classes(_file(case.clean_label or case.label), description), given.affine)
                changed = change(given, clean, description, copy.site, section, case.image.name)
                label = _written(copy, changed, case, description)
            except DataError as error:
                excluded.append((str(case.label), str(error)))
                _LOGGER.warning("Site %s: a label is copied as it is: %s", copy.site, error)
                label = copy.copy(_file(case.label), LABELS)
            image, channels = copy.copy_image(case)
            copied[section].append(
                Case(image, label, clean_file, case.group, case.source, case.annotator, channels=channels)
            )
    if change.num_masks and not change.num_changed and (asked := change.asked_for()) is not None:
        change.report_unchanged(UnchangedSite(copy.site, asked, change.num_masks))
    write_datalist(copy.target / DATALIST_FILE, copied)
    before = read_manifest(copy.source)
    manifest = Manifest(
        made=change.made,
        seed=change.seed,
        excluded=tuple(excluded),
        before=None if before is None else before.model_dump(mode="json"),
        **change.manifest(),
    )
    write_manifest(copy.target, manifest)


def _written(copy: SiteCopy, mask: Mask, case: Case, description: SegmentationDescription) -> Path:
    target = copy.target / LABELS / plain_name(_file(case.label))
    for suffix in (".png", ".nii.gz"):
        copy.free(target.with_name(target.name + suffix))
    return write_classes(target, mask, _file(case.label), description)


def _cases_with_masks(copy: SiteCopy) -> dict[str, list[Case]]:
    """The cases of every section whose labels are files; the others are left out."""
    sections: dict[str, list[Case]] = {}
    for section, cases in copy.datalist.cases.items():
        sections[section] = []
        for case in cases:
            numbers = [label for label in (case.label, case.clean_label) if isinstance(label, int)]
            if numbers:
                error = DataError(f"{case.image}: found the label {numbers[0]}; expected a mask file.")
                copy.leave_out(str(case.image), error)
            else:
                sections[section].append(case)
    return sections


def _file(label: Path | int) -> Path:
    assert isinstance(label, Path)
    return label
