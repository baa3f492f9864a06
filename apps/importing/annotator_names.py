"""Who annotated which of several masks of an image: what follows the image's name, or the folder of the mask."""

from collections.abc import Sequence

from ...custom.data.annotations import Annotation, annotator_name, checked_annotations
from ...custom.data.masks import plain_name
from ...transforms.errors import DataError
from ...transforms.folded_names import folded
from ...transforms.loading.folder_search import FoundFile
from ...transforms.natural_order import natural_order

BY_SUFFIX, BY_FOLDER = "by-suffix", "by-folder"
ANNOTATORS_OF_MASKS = (BY_SUFFIX, BY_FOLDER)


def folder_of_annotators(masks_of_images: Sequence[Sequence[FoundFile]]) -> int:
    """Return the level, from 0, of the folders in whose names the masks of each image differ.

    Raises:
        DataError: if masks of an image do not differ in exactly one folder, or no image has several masks.

    Args:
        masks_of_images: the masks of every image.
    """
    levels: set[int] = set()
    for masks in masks_of_images:
        depths = {len(mask.folders) for mask in masks}
        differing = {
            level
            for level in range(min(depths))
            if len(depths) == 1 and len({mask.folders[level] for mask in masks}) > 1
        }
        if len(masks) > 1 and len(differing) != 1:
            shown = ", ".join(mask.shown for mask in masks)
            raise DataError(
                f"--annotators by-folder: found {shown} of one image; expected that they differ in one folder, whose "
                "name is the annotator's."
            )
        levels |= differing
    if len(levels) != 1:
        raise DataError(
            "--annotators by-folder: found "
            + (
                "no image with several masks"
                if not levels
                else f"folders of annotators at the levels {', '.join(str(level + 1) for level in sorted(levels))}"
            )
            + "; expected a folder of masks for each annotator."
        )
    return levels.pop()


def annotations_of(image: FoundFile, masks: Sequence[FoundFile], level: int | None) -> tuple[Annotation, ...]:
    """Return the annotations of an image, sorted by their annotators.

    Args:
        image: the image, by the name that it shares with its masks.
        masks: its masks.
        level: of the folder that names the annotator; None where what follows the image's name does.

    Raises:
        DataError: if a mask has no annotator, or two have the same.
    """
    named = f"--annotators: {image.shown} has {len(masks)} masks"
    annotations = []
    for mask in masks:
        if level is None:
            text = _behind(plain_name(mask.file), image.name)
        elif level < len(mask.folders):
            text = mask.folders[level]
        else:
            raise DataError(f"{named}, and {mask.shown} is in no annotator's folder; expected one for each annotator.")
        if not text:
            raise DataError(f"{named}, and {mask.shown} names no annotator behind the image's name.")
        annotations.append(Annotation(mask.file, annotator_name(text, named)))
    ordered = sorted(annotations, key=lambda annotation: natural_order(annotation.annotator))
    return checked_annotations(ordered, named)


def _behind(name: str, image: str) -> str:
    """What a mask's name has behind its image's; the whole name in a folder of the image's."""
    # As masks are paired: no letter or digit follows the image's name.
    begins = folded(name).startswith(folded(image)) and not name[len(image) : len(image) + 1].isalnum()
    return (name[len(image) :] if begins else name).strip(" _-.")
