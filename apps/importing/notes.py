"""What a person has to know of an import: files left out, and what was decided about those that came along."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...custom.data.datalist import TESTING
from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.loading.image_channels import ImageChannels
from ...transforms.natural_order import natural_order
from ..checking.patient_names import likely_patients
from .checked import CheckedCase
from .plan import Plan
from .source import LeftOut

# Of a federation: what was left out of it, and why; names files of the one who imported.
IMPORT_FILE = "import.json"

_SHOWN_NAMES = 4
_SHOWN_REGIONS = 8


@dataclass(frozen=True)
class ImportReport:
    """What did not come along, and what was decided.

    Attributes:
        skipped: files left out on finding the data set.
        excluded: cases that could not be used.
        labels: value in the mask files → class, as given or as found; empty for classification.
        notes: a sentence for everything else that was found or decided.
        num_cases: number of the cases that came along.
    """

    skipped: tuple[LeftOut, ...]
    excluded: tuple[LeftOut, ...]
    labels: dict[int, int]
    notes: tuple[str, ...] = ()
    num_cases: int = 0

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Everything that was left out."""
        return (*self.skipped, *self.excluded)

    @property
    def by_reason(self) -> dict[str, tuple[LeftOut, ...]]:
        """What was left out by its reason, the most frequent first."""
        reasons: dict[str, list[LeftOut]] = defaultdict(list)
        for entry in self.left_out:
            reasons[entry.reason].append(entry)
        return {reason: tuple(own) for reason, own in sorted(reasons.items(), key=lambda item: -len(item[1]))}

    def plain(self) -> dict[str, object]:
        """Return the report as ``import.json`` has it; it names files and stays where they are."""
        return {
            "content": "fedannot import",
            "version": 1,
            "num_cases": self.num_cases,
            "num_left_out": len(self.left_out),
            "left_out": [
                {"reason": reason, "count": len(own), "files": [{"name": one.name, "text": str(one)} for one in own]}
                for reason, own in self.by_reason.items()
            ],
            "label_values": {str(value): label for value, label in self.labels.items()},
            "notes": list(self.notes),
        }


def left_out_columns(report: ImportReport) -> dict[str, list[str]]:
    """Return what was left out as columns of a table: a row for each reason, and the total."""
    reasons = report.by_reason
    return {
        "left out": [*reasons, "all reasons"],
        "number": [str(len(own)) for own in (*reasons.values(), report.left_out)],
        "for one": [*(own[0].name for own in reasons.values()), f"{report.num_cases} cases came along"],
    }


def identical_images(checked: Sequence[CheckedCase]) -> str | None:
    """Say which images have the same pixels, None if no two have."""
    groups: dict[str, list[CheckedCase]] = defaultdict(list)
    for case in checked:
        if case.digest is not None:
            groups[case.digest].append(case)
    alike = [group for group in groups.values() if len(group) > 1]
    if not alike:
        return None
    shown = "; ".join(_twins(group) for group in alike[:_SHOWN_NAMES])
    return (
        f"Pixel-identical images: {len(alike)} {'group' if len(alike) == 1 else 'groups'} of "
        f"{sum(map(len, alike))} cases, which are not parted between training, validation and test: "
        f"{shown}{'; …' if len(alike) > _SHOWN_NAMES else ''}."
    )


def _twins(group: Sequence[CheckedCase]) -> str:
    names = sorted((case.name for case in group), key=natural_order)
    classes = {case.label for case in group if isinstance(case.label, int)}
    more = " = …" if len(names) > _SHOWN_NAMES else ""
    return " = ".join(names[:_SHOWN_NAMES]) + more + (" (of different classes)" if len(classes) > 1 else "")


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


def colours(checked: Sequence[CheckedCase], chosen: int | None) -> str | None:
    """Say which images have colours and what becomes of them, None if none has or they are kept as was asked for.

    Args:
        checked: the cases.
        chosen: the channels that a person or the data set's layout chose, None if the images decided.
    """
    coloured = [case for case in checked if case.has_colours and chosen != 3]
    if chosen == 1:
        end = " and are read as grey. --channels 3 keeps the colours."
    else:
        others = "; grey ones get three equal channels" if len(coloured) < len(checked) else ""
        end = f", so that all are read as RGB{others}. --channels 1 reads them as grey."
    return _said("Colours: {count} of {total} images have colours ({image} for one)" + end, coloured, checked)


def missing_channels(checked: Sequence[CheckedCase], channels: ImageChannels) -> str | None:
    """Say which channels images lack and the model sees as zeros, None if none lacks one."""
    lacking = [case for case in checked if None in case.channels]
    counts = Counter(index for case in lacking for index, file in enumerate(case.channels) if file is None)
    shown = "; ".join(f"{channels.label(index)} in {counts[index]}" for index in sorted(counts))
    shown = shown.replace("{", "{{").replace("}", "}}")
    text = f"Missing channels: {{count}} of {{total}} images lack one ({{image}} for one), which is zeros: {shown}."
    return _said(text, lacking, checked)


def turned_pictures(checked: Sequence[CheckedCase]) -> str | None:
    """Say which images EXIF turns, None if none is turned."""
    text = (
        "Turned images: {count} of {total} images have an orientation in EXIF ({image} for one). They are read as "
        "viewers show them, masks by their own orientation. A mask that was drawn on the pixels as stored lies "
        "elsewhere: look at the contact sheets of `fedannot data check`."
    )
    return _said(text, [case for case in checked if case.is_turned_by_exif], checked)


def full_masks(checked: Sequence[CheckedCase], labels: Mapping[int, int]) -> str | None:
    """Say which masks are foreground everywhere, None if none is."""
    text = (
        "Foreground everywhere: {count} of {total} masks have no background ({label} for one). Compare them with their "
        "images; an export may have lost or inverted them."
    )
    background = 0, IGNORED_LABEL
    full = [case for case in checked if case.counts and all(labels[value] not in background for value in case.counts)]
    return _said(text, full, checked)


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
    return _said(text, [case for case in checked if case.is_turned], checked)


def resampled_masks(checked: Sequence[CheckedCase]) -> str | None:
    """Say how many masks have another grid than their images, None if none has."""
    resampled = [case for case in checked if case.resampled_from is not None]
    farthest = max((case.resampled_from or 0.0 for case in resampled), default=0.0)
    text = (
        "Resampled masks: in {count} of {total} cases ({label} for one) masks have other voxels than their images, at "
        f"the same place. Each voxel got the label of the nearest voxel of the mask, up to {farthest:.3g} mm away."
    )
    return _said(text, resampled, checked)


def kept_offsets(checked: Sequence[CheckedCase]) -> str | None:
    """Say how many masks lie less than half a voxel off their images, None if none does."""
    off = [case for case in checked if case.kept_offset > 0]
    farthest = max((case.kept_offset for case in off), default=0.0)
    text = (
        "Masks slightly off: in {count} of {total} cases ({label} for one) masks lie less than half a voxel off their "
        f"images, up to {farthest:.3g} mm. Their voxels were taken as they are."
    )
    return _said(text, off, checked)


def rounded_masks(checked: Sequence[CheckedCase]) -> str | None:
    """Say in how many cases label values were rounded, None if in none."""
    text = (
        "Rounded masks: in {count} of {total} cases ({label} for one) label values were not quite whole numbers; masks "
        "are written with the nearest ones."
    )
    return _said(text, [case for case in checked if case.is_rounded], checked)


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
    return _said("; ".join([parts[0], *escaped]) + ".", drawn, checked)


def segments_by_names(checked: Sequence[CheckedCase]) -> str | None:
    """Say in how many cases segments got the values of the classes that they are named as, None if in none."""
    text = (
        "Segments: in {count} of {total} cases ({label} for one) segments have other values than the classes that they "
        "are named as. Names count there."
    )
    return _said(text, [case for case in checked if any(facts.is_by_names for facts in case.masks)], checked)


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
    return _said(text, concerned, checked)


def _counted(names: Iterable[str]) -> str:
    """Names with how often each comes, the most frequent first."""
    count = Counter(names).most_common()
    more = ", …" if len(count) > _SHOWN_REGIONS else ""
    return ", ".join(f"{name!r} ({number})" for name, number in count[:_SHOWN_REGIONS]) + more


def _said(text: str, cases: Sequence[CheckedCase], checked: Sequence[CheckedCase]) -> str | None:
    """What is to be said of some of the cases, None if there are none.

    Args:
        text: with places for their ``count`` among the ``total``, and the ``image`` or ``label`` of one of them.
        cases: those of which it is said.
        checked: all cases.
    """
    if not cases:
        return None
    example = cases[0]
    return text.format(count=len(cases), total=len(checked), image=example.name, label=example.label_file.name)


def header_remarks(checked: Sequence[CheckedCase]) -> str | None:
    """Say which headers contradict themselves or are not in millimetres, and what of them counts; None if none is."""
    cases = [case for case in checked if case.remarks]
    if not cases:
        return None
    shown = " ".join(case.remarks[0] for case in cases[:_SHOWN_NAMES])
    more = f" … and {len(cases) - _SHOWN_NAMES} more." if len(cases) > _SHOWN_NAMES else ""
    return f"Headers: in {len(cases)} of {len(checked)} cases, {shown}{more}"


def likely_patients_parted(checked: Sequence[CheckedCase], plan: Plan) -> str | None:
    """Say which option keeps patients together whom names seem to tell; None where patients are known or not told."""
    unknown = [index for index, case in enumerate(checked) if case.source.group is None]
    names = [checked[index].source.path or checked[index].source.image.name for index in unknown]
    result = likely_patients(names)
    if result is None:
        return None
    in_test, shared = set(plan.test), result.shared
    parted = [own for own in shared.values() if 0 < sum(unknown[place] in in_test for place in own) < len(own)]
    example = next(iter(shared.values()))
    shown = ", ".join(names[place] for place in example[:_SHOWN_NAMES])
    leak = f"{len(parted)} of them have images both for training and in the test set. " if parted else ""
    return (
        f"Patients: names look like several images of one patient, {sum(map(len, shared.values()))} images of "
        f"{len(shared)} patients ({shown}{', …' if len(example) > _SHOWN_NAMES else ''}). They were dealt out image by "
        f"image. {leak}To keep patients together: --group '{result.pattern}'."
    )


def patients_parted(checked: Sequence[CheckedCase], plan: Plan) -> str:
    """Say how many patients have images both for training and in the test set, because they were parted on request."""
    in_test = set(plan.test)
    tested = {checked[index].source.group for index in in_test} - {None}
    both = tested & {case.source.group for index, case in enumerate(checked) if index not in in_test}
    return (
        f"Patients: cases were dealt out one by one, as asked for. {len(both)} patients, volumes or videos are both "
        "trained on and tested with, so scores say nothing of new patients."
    )


def moved_to_test(checked: Sequence[CheckedCase], plan: Plan) -> str | None:
    """Say how many cases are tested with though published for training, because their group or image is in the test.

    None if there are none, or if the test set is not the published one.
    """
    if not any(checked[index].source.section == TESTING for index in plan.test):
        return None
    moved = [checked[index] for index in plan.test if checked[index].source.section not in (TESTING, None)]
    if not moved:
        return None
    groups = {case.source.group for case in moved} - {None}
    of = f" of {len(groups)} groups (patients or slides)" if groups else ""
    return (
        f"Moved: {len(moved)} cases{of} are published for training, {moved[0].name} for one. They went to the test "
        "set, where the same group or a pixel-identical image is published; nobody trains on them."
    )


def absent_from_test(names: Mapping[int, str], in_test: set[int], in_sites: set[int]) -> str | None:
    """Say which classes that sites have no case of the test set shows, None if all are there."""
    absent = [name for label, name in names.items() if label in in_sites and label not in in_test]
    if not absent:
        return None
    return f"Test set: no case shows {', '.join(absent)}, so that no score will say anything about it."
