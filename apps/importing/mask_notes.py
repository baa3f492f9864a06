"""What a person has to know of the masks of an import: moved, turned, resampled, drawn, named, or ignored."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from ...transforms.ignored_label import IGNORED_LABEL
from .checked import CheckedCase
from .notes import said_of_cases

_SHOWN_REGIONS = 8


def several_masks(checked: Sequence[CheckedCase]) -> str | None:
    """Say how many images have several mask files, None if none has."""
    united = [case for case in checked if isinstance(case.source.label, tuple) and len(case.source.label) > 1]
    if not united:
        return None
    files = sum(len(case.source.label) for case in united if isinstance(case.source.label, tuple))
    return (
        f"Several masks: {files} files of {len(united)} images became one mask each, {united[0].name} for one. "
        "They are taken for objects of one image; if they are several readers' masks, keep all with --annotators, or "
        "choose one with --label-include."
    )


def trusted_voxels(checked: Sequence[CheckedCase]) -> str | None:
    """Say how far masks lay off their images whose affines were not believed, None if none did."""
    moved = [case for case in checked if case.offset > 0]
    if not moved:
        return None
    worst = max(moved, key=lambda case: case.offset)
    return (
        f"Trusted voxels: {len(moved)} masks lay up to {worst.offset:.3g} mm off their images (most "
        f"{worst.label_file.name}) and got their images' affines."
    )


def full_masks(checked: Sequence[CheckedCase], labels: Mapping[int, int]) -> str | None:
    """Say which masks are foreground everywhere, None if none is."""
    text = (
        "Foreground everywhere: {count} of {total} masks have no background ({label} for one). Compare them with their "
        "images; an export may have lost or inverted them."
    )
    background = 0, IGNORED_LABEL
    full = [case for case in checked if case.counts and all(labels[value] not in background for value in case.counts)]
    return said_of_cases(text, full, checked)


def ignored_pixels(checked: Sequence[CheckedCase], ignore: Collection[int]) -> str | None:
    """Say how many pixels count nowhere, None if no value says so."""
    if not ignore:
        return None
    pixels = [sum(count.pixels for value, count in case.counts.items() if value in ignore) for case in checked]
    total = sum(case.pixels for case in checked)
    return (
        f"Ignored pixels: {sum(pixels) / max(total, 1):.2%} of the pixels, in {sum(map(bool, pixels))} of "
        f"{len(checked)} masks, count nowhere."
    )


def turned_masks(checked: Sequence[CheckedCase]) -> str | None:
    """Say how many masks were stored in another orientation than their images, None if none was."""
    text = (
        "Turned masks: in {count} of {total} cases ({label} for one) masks are stored in another orientation than "
        "their images, at the same place; they were turned, every label as it was."
    )
    return said_of_cases(text, [case for case in checked if case.is_turned], checked)


def resampled_masks(checked: Sequence[CheckedCase]) -> str | None:
    """Say how many masks have another grid than their images, None if none has."""
    resampled = [case for case in checked if case.resampled_from is not None]
    farthest = max((case.resampled_from or 0.0 for case in resampled), default=0.0)
    text = (
        "Resampled masks: in {count} of {total} cases ({label} for one) masks have other voxels than their images, at "
        f"the same place. Each voxel got the label of the nearest voxel of the mask, up to {farthest:.3g} mm away."
    )
    return said_of_cases(text, resampled, checked)


def kept_offsets(checked: Sequence[CheckedCase]) -> str | None:
    """Say how many masks lie less than half a voxel off their images, None if none does."""
    off = [case for case in checked if case.kept_offset > 0]
    farthest = max((case.kept_offset for case in off), default=0.0)
    text = (
        "Masks slightly off: in {count} of {total} cases ({label} for one) masks lie less than half a voxel off their "
        f"images, up to {farthest:.3g} mm. Their voxels were taken as they are."
    )
    return said_of_cases(text, off, checked)


def rounded_masks(checked: Sequence[CheckedCase]) -> str | None:
    """Say in how many cases label values were rounded, None if in none."""
    text = (
        "Rounded masks: in {count} of {total} cases ({label} for one) label values were not quite whole numbers; masks "
        "are written with the nearest ones."
    )
    return said_of_cases(text, [case for case in checked if case.is_rounded], checked)


def drawn_contours(checked: Sequence[CheckedCase]) -> str | None:
    """Say what of structure sets became masks and what did not, None if there are none."""
    drawn = [case for case in checked if case.contours]
    facts = [own for case in drawn for own in case.contours]
    ignored, overlapping = sum(own.num_ignored for own in facts), [own.num_overlapping for own in facts]
    parts = ["Contours: in {count} of {total} cases ({label} for one) masks were drawn from RTSTRUCT"]
    if others := _counted(name for own in facts for name in own.others):
        parts.append(f"regions that no class names were left out: {others}")
    if absent := _counted(name for own in facts for name in own.absent):
        parts.append(f"there is no region for {absent}, which is background there")
    if ignored:
        parts.append(f"{ignored} contours that enclose nothing, such as open ones and points, were ignored")
    if any(overlapping):
        where = f"{sum(overlapping)} voxels of {sum(map(bool, overlapping))} structure sets"
        parts.append(f"{where} lie in the regions of two classes; the later class of --classes has them")
    escaped = [part.replace("{", "{{").replace("}", "}}") for part in parts[1:]]
    return said_of_cases("; ".join([parts[0], *escaped]) + ".", drawn, checked)


def segments_by_names(checked: Sequence[CheckedCase]) -> str | None:
    """Say in how many cases segments got the values of the classes that they are named as, None if in none."""
    text = (
        "Segments: in {count} of {total} cases ({label} for one) segments have other values than the classes that they "
        "are named as. Names count there."
    )
    return said_of_cases(text, [case for case in checked if any(facts.is_by_names for facts in case.masks)], checked)


def segments_of_several_values(checked: Sequence[CheckedCase]) -> str | None:
    """Say which segments that are no classes have one value here and another one there, None if there are none."""
    values: dict[str, set[int]] = defaultdict(set)
    for case in checked:
        for facts in case.masks:
            for name, value in () if facts.is_by_names else facts.segments:
                values[name].add(value)
    several = {name: sorted(own) for name, own in values.items() if len(own) > 1}
    if not several:
        return None
    name, own = next(iter(several.items()))
    shown = name.replace("{", "{{").replace("}", "}}")
    text = (
        f"Segments: in {{count}} of {{total}} cases ({{label}} for one) masks are of segments whose value is not the "
        f"same in all files: {shown!r} has {', '.join(map(str, own))}. Values count, so that classes may be exchanged. "
        "--classes with the names of the segments takes them by name."
    )
    concerned = [
        case
        for case in checked
        if any(of_segment[0] in several for facts in case.masks for of_segment in facts.segments)
    ]
    return said_of_cases(text, concerned, checked)


def _counted(names: Iterable[str]) -> str:
    """Names with how often each comes, the most frequent first."""
    count = Counter(names).most_common()
    more = ", …" if len(count) > _SHOWN_REGIONS else ""
    return ", ".join(f"{name!r} ({number})" for name, number in count[:_SHOWN_REGIONS]) + more
