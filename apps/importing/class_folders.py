"""A data set whose classes are folders: ``benign/a.png``, ``malignant/b.png``, also below ``train`` and ``test``."""

from collections.abc import Sequence
from pathlib import Path

from ...transforms.errors import DataError
from .class_names import ClassSpellings
from .folders import fits
from .found_files import other_files
from .layouts.listing import checked, list_files
from .source import LeftOut, SourceCase, SourceDataset

_EXPECTED = "a folder of pictures for every class, CLASS/NAME.png, also below folders such as train and test"


def read_class_folders(folder: Path, *, names: Sequence[str] | None = None, masks: Sequence[str] = ()) -> SourceDataset:
    """Find pictures whose class is the folder that they lie in.

    Folders above it may name a section, such as ``train``, ``valid`` or ``Test Set``.

    Args:
        folder: what holds the classes' folders.
        names: the classes in their order, which are folders; None takes all folders in natural order.
        masks: patterns of file names that are masks and no images.

    Raises:
        DataError: if there are fewer than two classes, or a name is no folder's.
    """
    listing = list_files(folder)
    pictures = [file for file in listing.pictures() if file.parent != folder and not fits(file, masks)]
    spellings = ClassSpellings.among([file.parent.name for file in pictures], names)
    result, class_of = spellings.names, spellings.of
    classes = tuple(result if names is None else names)
    if missing := [name for name in classes if name not in result]:
        raise DataError(
            f"--classes: found {', '.join(missing)}; expected names of folders with images in {folder}: "
            f"{', '.join(result) or 'there are none'}."
        )
    if len(classes) < 2:
        raise DataError(
            f"{folder}: found {len(result)} folders with images ({', '.join(result) or 'none'}); expected at least two "
            f"classes, {_EXPECTED}."
        )
    cases = tuple(
        SourceCase(file, classes.index(class_of[file.parent.name]), section=listing.section(file.parent))
        for file in pictures
        if class_of[file.parent.name] in classes
    )
    others = tuple(
        LeftOut(listing.shown(file), "its folder is none of the classes")
        for file in pictures
        if class_of[file.parent.name] not in classes
    )
    dataset = SourceDataset(
        folder.resolve().name,
        "classification",
        False,
        cases,
        classes,
        channels=None,
        skipped=(*others, *other_files(listing)),
        notes=spellings.notes,
    )
    return checked(dataset, listing, _EXPECTED)
