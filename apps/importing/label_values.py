"""What the values in masks mean: value in the files → class."""

from collections.abc import Mapping, Sequence

from ...transforms.errors import DataError
from ...transforms.loading.image_files import show_values
from .checked import CheckedCase, unusable_values
from .source import SourceDataset


def label_map(
    dataset: SourceDataset, checked: Sequence[CheckedCase], asked: Mapping[int, int] | None
) -> dict[int, int]:
    """Say which value in the masks is which class: as asked for, as the data set says, or as two-valued masks say.

    Where a data set says that 1 is the only class and all its masks have 0 and 255, then 255 is that class.

    Args:
        dataset: the data set.
        checked: its cases.
        asked: value → class beside 0 → 0, None if the person said nothing.

    Returns:
        Value → class; nothing for classification.

    Raises:
        DataError: if the data set says nothing, and the masks have other values than 0 and 1, or 0 and 255; or if
            there are no masks to speak of.
    """
    if dataset.task == "classification":
        if asked is not None:
            raise DataError(f"--label-map: says what values in masks mean, but {dataset.name} has no masks.")
        return {}
    if asked is not None:
        return {0: 0} | dict(asked)
    found = {value for case in checked for value in case.values}
    said = dataset.labels
    if said is not None and not (len(said) == 2 and found <= {0, 255} and not found <= said.keys()):
        return dict(said)
    seen: set[int] = set()
    for case in checked:
        seen |= set(case.values)
        if not (seen <= {0, 1} or seen <= {0, 255}):
            raise DataError(
                f"{case.label_file}: found the label values {show_values(case.values)}, in all masks so far "
                f"{show_values(sorted(seen))}; without a label map expected 0 and 1, or 0 and 255, in all masks. Say "
                'what they mean, for example --label-map "85:1,170:2" --classes "lesion,cyst".'
            )
    if found <= {0}:
        raise DataError("Found only empty masks; expected some with a lesion, or a label map that says its value.")
    return {0: 0, max(found): 1}


def with_known_values(
    checked: Sequence[CheckedCase], labels: Mapping[int, int], excluded: list[str]
) -> list[CheckedCase]:
    """The cases whose mask values all have a class; the others are added to the excluded."""
    usable: list[CheckedCase] = []
    for case in checked:
        reason = unusable_values(case, labels)
        if reason is None:
            usable.append(case)
        else:
            excluded.append(reason)
    return usable
