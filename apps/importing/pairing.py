"""Which mask belongs to which image, by their paths: capitals and the Unicode form of accents do not matter.

The rules go from the most certain to the least; a mask takes the first that names an image. If a rule names several
images, the folders decide between them, and where they cannot, the mask is ambiguous.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...transforms.folded_names import folded
from ...transforms.loading.folder_search import FoundFile

# What lies below a folder, by the text that a rule compares.
_Texts = Callable[[FoundFile], Iterator[str]]


@dataclass(frozen=True)
class Pairing:
    """What belongs together.

    Attributes:
        masks: position of an image → its masks.
        ambiguous: masks that several images fit, with the positions of these.
        alone: masks that no image fits.
    """

    masks: Mapping[int, tuple[FoundFile, ...]]
    ambiguous: tuple[tuple[FoundFile, tuple[int, ...]], ...]
    alone: tuple[FoundFile, ...]

    def with_masks(self, others: Mapping[int, Sequence[FoundFile]]) -> "Pairing":
        """Return what belongs together with further masks of some images."""
        places = sorted({*self.masks, *others})
        masks = {place: (*self.masks.get(place, ()), *others.get(place, ())) for place in places}
        return replace(self, masks=masks)


def pair(images: Sequence[FoundFile], masks: Sequence[FoundFile]) -> Pairing:
    """Find the image of every mask."""
    rules = [(_by_text(images, of_image), of_mask) for of_image, of_mask in _RULES]
    repeated = _repeated(images), _repeated(masks)
    by_folder = _by_text(images, _each_folder)
    pairs: dict[int, list[FoundFile]] = defaultdict(list)
    ambiguous: list[tuple[FoundFile, tuple[int, ...]]] = []
    alone: list[FoundFile] = []
    for mask in masks:
        fitting = next((fit for known, texts in rules if (fit := _named(known, texts(mask)))), ())
        if not fitting and mask.folders:
            # Every patient has an image of one name and a mask of another: the folder says whose they are.
            near = _named(by_folder, iter([folded(mask.folders[-1])]))
            generic = folded(mask.name) in repeated[1] or any(
                folded(images[place].name) in repeated[0] for place in near
            )
            fitting = near if generic else ()
        chosen = _nearest(fitting, images, mask)
        if len(chosen) == 1:
            pairs[chosen[0]].append(mask)
        elif chosen:
            ambiguous.append((mask, chosen))
        else:
            alone.append(mask)
    return Pairing({place: tuple(own) for place, own in pairs.items()}, tuple(ambiguous), tuple(alone))


def _exact_path(entry: FoundFile) -> Iterator[str]:
    yield "/".join((*entry.folders, entry.name))


def _path(entry: FoundFile) -> Iterator[str]:
    yield folded("/".join((*entry.folders, entry.name)))


def _folder_path(entry: FoundFile) -> Iterator[str]:
    if entry.folders:
        yield folded("/".join(entry.folders))


def _key(entry: FoundFile) -> Iterator[str]:
    yield folded(entry.name)


def _last_folder(entry: FoundFile) -> Iterator[str]:
    if entry.folders:
        yield folded(entry.folders[-1])


def _each_folder(entry: FoundFile) -> Iterator[str]:
    yield from {folded(name) for name in entry.folders}


def _joined(entry: FoundFile) -> Iterator[str]:
    """Names of neighbouring folders, and of folders and file, with a mark between them: ``patient1_study2``."""
    parts = (*entry.folders, entry.name)
    for first in range(len(parts)):
        for last in range(first + 2, len(parts) + 1):
            for mark in ("_", "-", " ", "."):
                yield folded(mark.join(parts[first:last]))


# Texts of an image and of a mask that must be the same, the most certain first.
_RULES: tuple[tuple[_Texts, _Texts], ...] = (
    (_exact_path, _exact_path),
    (_path, _path),
    (_path, _folder_path),
    (_key, _key),
    (_joined, _key),
    (_key, _last_folder),
    (_each_folder, _key),
)


def _by_text(images: Sequence[FoundFile], texts: _Texts) -> dict[str, list[int]]:
    known: dict[str, list[int]] = defaultdict(list)
    for place, image in enumerate(images):
        for text in set(texts(image)):
            known[text].append(place)
    return known


def _named(known: Mapping[str, Sequence[int]], texts: Iterator[str]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(place for text in texts for place in known.get(text, ())))


def _nearest(fitting: Sequence[int], images: Sequence[FoundFile], mask: FoundFile) -> tuple[int, ...]:
    """Of several images those whose folders share the most names with the mask's."""
    if len(fitting) < 2:
        return tuple(fitting)
    own = {folded(name) for name in mask.folders}
    common = {place: len(own & {folded(name) for name in images[place].folders}) for place in fitting}
    return tuple(place for place in fitting if common[place] == max(common.values()))


def _repeated(entries: Sequence[FoundFile]) -> set[str]:
    """Names that files of several folders have."""
    places = Counter(key for key, _ in {(folded(entry.name), entry.folders) for entry in entries})
    return {key for key, count in places.items() if count > 1}
