"""A data set from two folders, or from one: images and masks, paired by their paths."""

import fnmatch
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...custom.data.annotations import UNDECIDED
from ...transforms.errors import DataError
from ...transforms.folded_names import folded
from ...transforms.loading.dicom_header import is_dicom_picture
from ...transforms.loading.folder_search import FoundFile
from ...transforms.loading.image_files import IMAGE_SUFFIXES
from ...transforms.natural_order import natural_order
from .annotator_names import BY_FOLDER, BY_SUFFIX, annotations_of, folder_of_annotators
from .channel_files import ChannelFiles, grouped_channels
from .found_files import FoundFiles, find_files
from .pairing import pair
from .series_pairs import paired_by_series
from .source import LeftOut, SourceCase, SourceDataset

_SHOWN_NAMES = 5
# A number behind a mask's suffix: the second, third, … mask of its image.
_NUMBER = r"(?:[ _-]?\d+)?"


@dataclass(frozen=True)
class MaskNames:
    """How names tell masks from images, and which belong together.

    Attributes:
        label_suffix: what a mask's name has behind its image's, such as ``_segmentation``; a number may follow.
        image_suffix: what an image's name has that its mask's lacks, such as ``_ct`` next to ``_seg``.
        include: patterns of image file names such as ``benign_*``; empty takes all.
        label_include: patterns of mask file names, as above.
        has_annotators: whether a mask's name has its annotator's behind its image's.
    """

    label_suffix: str = ""
    image_suffix: str = ""
    include: Sequence[str] = ()
    label_include: Sequence[str] = ()
    has_annotators: bool = False

    @property
    def tell_apart(self) -> bool:
        """Whether names tell masks from images that lie in the same folder."""
        return bool(self.label_suffix or self.image_suffix or self.label_include)

    def is_mask(self, file: Path, name: str) -> bool:
        """Return whether a file next to images is a mask, by its name with and without suffix."""
        if self.label_include:
            return fits(file, self.label_include)
        if self.label_suffix:
            return self.of_mask(name) is not None
        return self.of_image(name) is None

    def is_asked_for(self, mask: Path) -> bool:
        """Return whether a mask's file name fits the patterns of masks, if there are any."""
        return not self.label_include or fits(mask, self.label_include)

    def of_mask(self, name: str) -> str | None:
        """Return what a mask shares with its image; None of a name without the suffix of masks."""
        if not self.label_suffix:
            return name
        pattern = f"(.+){re.escape(_composed(self.label_suffix))}{_NUMBER}"
        result = re.fullmatch(pattern, _composed(name), re.IGNORECASE | re.DOTALL)
        return None if result is None else result[1]

    def of_image(self, name: str) -> str | None:
        """Return what an image shares with its mask; None of a name without the suffix of images."""
        result = re.fullmatch(
            f"(.+){re.escape(_composed(self.image_suffix))}", _composed(name), re.IGNORECASE | re.DOTALL
        )
        return None if result is None else result[1]


def read_folders(
    images: Path,
    labels: Path,
    *,
    label_suffix: str = "",
    image_suffix: str = "",
    include: Sequence[str] = (),
    label_include: Sequence[str] = (),
    annotators: str | None = None,
) -> SourceDataset:
    """Find pairs of image and mask below two folders, or below one where names tell them apart.

    Pictures, volumes (NIfTI, NRRD, MHA, …) and folders with a DICOM series are found however deep they lie; all must be
    pictures or all volumes. Files called ``CASE_0000``, ``CASE_0001``, … of a mask ``CASE`` are channels. See
    :mod:`fedannot.apps.importing.pairing` for what belongs together. Everything else is left out with its reason.

    Args:
        images: folder of the images.
        labels: folder of the masks; may be the same where a suffix or a pattern tells masks apart.
        label_suffix: see :class:`MaskNames`.
        image_suffix: as above.
        include: as above.
        label_include: as above. Where masks have no suffix, what follows the image's name decides nothing.
        annotators: what names the annotators of several masks of an image, one of :data:`ANNOTATORS_OF_MASKS`: what
            follows the image's name, or the folder in which they differ. None for one annotator.

    Raises:
        DataError: if a folder is missing, there is no pair, two images of a folder have one name, or pictures and
            volumes are mixed.
    """
    if annotators == BY_SUFFIX and label_suffix:
        raise DataError("--annotators by-suffix: is what masks' names have behind; expected no --label-suffix.")
    names = MaskNames(label_suffix, image_suffix, include, label_include, has_annotators=annotators == BY_SUFFIX)
    one_folder = images.resolve() == labels.resolve()
    for folder in (images, labels):
        if not folder.is_dir():
            raise DataError(f"{folder}: found no such folder; expected one with images.")
    found = find_files(images, without=None if one_folder else labels)
    if one_folder and not (names.tell_apart or any(entry.is_structure_set for entry in found.usable)):
        raise DataError(
            f"{images}: is given for images and for masks; expected two folders, or what tells masks apart: "
            "--label-suffix _seg, --label-include '*_mask*', or --image-suffix _ct."
        )
    found_labels = found if one_folder else find_files(labels, without=images)
    left_out = list(found.others if one_folder else (*found.others, *found_labels.others))
    image_entries = _images(found, images, names, left_out, without_masks=one_folder)
    label_entries = _masks(found_labels, labels, names, image_entries, left_out, only_masks=one_folder)
    image_entries, channels_of = grouped_channels(image_entries, label_entries)
    by_series, others = paired_by_series(image_entries, label_entries)
    pairs = pair(image_entries, others).with_masks(by_series)
    if not pairs.masks:
        raise DataError(_no_pair(images, labels, names, image_entries, label_entries, left_out))
    paired = [(entry, pairs.masks[place]) for place, entry in enumerate(image_entries) if place in pairs.masks]
    kinds = {_is_picture(entry.file) for entry, _ in paired}
    if len(kinds) > 1:
        raise DataError(f"{images}: found pictures and volumes; expected one kind. Choose with --include.")
    left_out += [
        LeftOut(entry.shown, "no mask") for place, entry in enumerate(image_entries) if place not in pairs.masks
    ]
    # Masks of images that were not asked for are not missed.
    if not include:
        left_out += [LeftOut(mask.shown, "no image") for mask in pairs.alone]
        left_out += [_ambiguous(mask, [image_entries[place] for place in fit]) for mask, fit in pairs.ambiguous]
    return SourceDataset(
        name=" and ".join(dict.fromkeys((images.resolve().name, labels.resolve().name))),
        task="segmentation",
        volumes=not kinds.pop(),
        cases=_cases(paired, channels_of, annotators),
        channels=None,
        skipped=tuple(sorted(left_out, key=lambda entry: natural_order(str(entry)))),
    )


def _is_picture(file: Path) -> bool:
    return file.suffix.lower() in IMAGE_SUFFIXES or is_dicom_picture(file)


def fits(file: Path, patterns: Sequence[str]) -> bool:
    """Return whether a file's name fits one of the patterns."""
    return any(fnmatch.fnmatchcase(_composed(file.name), _composed(pattern)) for pattern in patterns)


def _composed(text: str) -> str:
    """The text with every accent in one character with its letter."""
    return unicodedata.normalize("NFC", text)


def _cases(
    paired: Sequence[tuple[FoundFile, Sequence[FoundFile]]],
    channels_of: Mapping[Path, ChannelFiles],
    annotators: str | None,
) -> tuple[SourceCase, ...]:
    """The cases, each with a name of its own: the image's, behind its folders' where several images have it."""
    count = Counter(folded(image.name) for image, _ in paired)
    level = folder_of_annotators([masks for _, masks in paired]) if annotators == BY_FOLDER else None
    cases = []
    # In the order of their names: a split goes by positions.
    for image, masks in sorted(paired, key=lambda own: (own[0].name, own[0].shown)):
        name = image.name if count[folded(image.name)] == 1 else "_".join((*image.folders, image.name))
        files = tuple(mask.file for mask in sorted(masks, key=lambda mask: natural_order(mask.shown)))
        label, channels = files[0] if len(files) == 1 else files, channels_of.get(image.file, ())
        case = SourceCase(image.file, label, name=name, channels=channels)
        if annotators is not None:
            case = replace(case, label=UNDECIDED, annotations=annotations_of(image, masks, level))
        cases.append(case)
    return tuple(cases)


def _ambiguous(mask: FoundFile, images: Sequence[FoundFile]) -> LeftOut:
    shown = ", ".join(image.shown for image in images[:_SHOWN_NAMES])
    more = ", …" if len(images) > _SHOWN_NAMES else ""
    reason = "several images fit"
    return LeftOut(mask.shown, reason, f"{mask.shown}: {reason}, {shown}{more}; name the mask as its image is named")


def _images(
    found: FoundFiles, root: Path, names: MaskNames, left_out: list[LeftOut], *, without_masks: bool
) -> list[FoundFile]:
    """The images, by what they share with their masks."""
    result: dict[tuple[tuple[str, ...], str], FoundFile] = {}
    for one in found.usable:
        if one.is_structure_set:
            if not without_masks:
                left_out.append(LeftOut(one.shown, "contours (RTSTRUCT) in the folder of the images"))
            continue
        if (without_masks and names.is_mask(one.file, one.name)) or (
            names.include and not fits(one.file, names.include)
        ):
            continue
        key = names.of_image(one.name)
        if key is None:
            left_out.append(LeftOut(one.shown, f"its name does not end with {names.image_suffix}"))
            continue
        _add(result, (one.folders, key), replace(one, name=key), root)
    return list(result.values())


def _masks(
    found: FoundFiles,
    root: Path,
    names: MaskNames,
    images: Sequence[FoundFile],
    left_out: list[LeftOut],
    *,
    only_masks: bool,
) -> list[FoundFile]:
    """The masks, by what they share with their images."""
    keys = {folded(image.name) for image in images}
    paths = {folded("/".join((*image.folders, image.name))) for image in images}
    result: dict[tuple[tuple[str, ...], str], FoundFile] = {}
    for one in found.usable:
        is_mask = one.is_structure_set or not only_masks or names.is_mask(one.file, one.name)
        if not is_mask or not names.is_asked_for(one.file):
            continue
        # A folder with the name of an image holds its masks, whatever these are called.
        key = one.name if folded("/".join(one.folders)) in paths else names.of_mask(one.name)
        if one.is_structure_set:
            key = key or one.name
        if key is None:
            left_out.append(LeftOut(one.shown, "no image"))
            continue
        if (names.label_include or names.has_annotators) and not names.label_suffix:
            key = _longest_beginning(key, keys)
        _add(result, (one.folders, one.name), replace(one, name=key), root)
    return list(result.values())


def _add(
    known: dict[tuple[tuple[str, ...], str], FoundFile],
    place: tuple[tuple[str, ...], str],
    entry: FoundFile,
    root: Path,
) -> None:
    if place in known:
        raise DataError(
            f"{root.joinpath(*entry.folders)}: found {known[place].file.name} and {entry.file.name}; expected one file "
            "of each name."
        )
    known[place] = entry


def _longest_beginning(name: str, images: set[str]) -> str:
    """The longest name of an image that a mask's name begins with, no letter or digit following; else its own.

    Args:
        name: the mask's, without suffix.
        images: folded names.
    """
    ends = [end for end in range(len(name), 0, -1) if end == len(name) or not name[end].isalnum()]
    return next((name[:end] for end in ends if folded(name[:end]) in images), name)


def _no_pair(
    images: Path,
    labels: Path,
    names: MaskNames,
    image_entries: Sequence[FoundFile],
    label_entries: Sequence[FoundFile],
    left_out: Sequence[LeftOut],
) -> str:
    chosen = f" that fit {', '.join(names.include)}" if names.include else ""
    plus = (names.image_suffix and f", the image's plus {names.image_suffix}") + (
        names.label_suffix and f", plus {names.label_suffix}"
    )
    first = f" Left out first: {left_out[0]}." if left_out else ""
    return (
        f"Found no pair: {_some_names(image_entries)} in {images}{chosen}, {_some_names(label_entries)} in "
        f"{labels}; expected an image and a mask of the same name without suffix{plus}. What the names have in "
        f"addition: --label-suffix, --image-suffix.{first}"
    )


def _some_names(entries: Sequence[FoundFile]) -> str:
    names = ["/".join((*entry.folders, entry.file.name)) for entry in entries]
    if not names:
        return "no images"
    return ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
