"""What a person has to know of an import: files left out, and what was decided about those that came along."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...custom.data.datalist import TESTING
from ...transforms.loading.image_channels import ImageChannels
from ...transforms.natural_order import natural_order
from ..checking.patient_names import likely_patients
from .checked import CheckedCase
from .plan import Plan
from .source import LeftOut

# Of a federation: what was left out of it, and why; names files of the one who imported.
IMPORT_FILE = "import.json"

_SHOWN_NAMES = 4


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
    return said_of_cases("Colours: {count} of {total} images have colours ({image} for one)" + end, coloured, checked)


def missing_channels(checked: Sequence[CheckedCase], channels: ImageChannels) -> str | None:
    """Say which channels images lack and the model sees as zeros, None if none lacks one."""
    lacking = [case for case in checked if None in case.channels]
    counts = Counter(index for case in lacking for index, file in enumerate(case.channels) if file is None)
    shown = "; ".join(f"{channels.label(index)} in {counts[index]}" for index in sorted(counts))
    shown = shown.replace("{", "{{").replace("}", "}}")
    text = f"Missing channels: {{count}} of {{total}} images lack one ({{image}} for one), which is zeros: {shown}."
    return said_of_cases(text, lacking, checked)


def turned_pictures(checked: Sequence[CheckedCase]) -> str | None:
    """Say which images EXIF turns, None if none is turned."""
    text = (
        "Turned images: {count} of {total} images have an orientation in EXIF ({image} for one). They are read as "
        "viewers show them, masks by their own orientation. A mask that was drawn on the pixels as stored lies "
        "elsewhere: look at the contact sheets of `fedannot data check`."
    )
    return said_of_cases(text, [case for case in checked if case.is_turned_by_exif], checked)


def said_of_cases(text: str, cases: Sequence[CheckedCase], checked: Sequence[CheckedCase]) -> str | None:
    """Return what is to be said of some of the cases, None if there are none.

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
