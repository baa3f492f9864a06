"""What the values in masks mean: value in the files → class."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ...custom.data.label_ranges import runs
from ...transforms.errors import DataError
from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.loading.image_files import show_values
from .checked import CheckedCase
from .source import LeftOut, SourceDataset

# A mask is grey rather than numbered if it has more values than this, and this fraction of its pixels lies near the
# ends.
_MOST_CLASSES = 8
_SHARE_AT_THE_ENDS = 0.9
_END = 0.2
# A value in fewer masks than this share is a stray one.
_SHARE_OF_STRAYS = 0.1
_SHOWN_VALUES = 3


def label_map(
    dataset: SourceDataset,
    checked: Sequence[CheckedCase],
    asked: Mapping[int, int] | None,
    ignore: Collection[int] = (),
) -> dict[int, int]:
    """Say which value in the masks is which class: as asked for, as the data set says, or as two-valued masks say.

    Where a data set says that 1 is the only class and all its masks have 0 and 255, then 255 is that class.

    Args:
        dataset: the data set.
        checked: its cases.
        asked: value → class besides 0 → 0, None if the person said nothing.
        ignore: values of pixels that count nowhere.

    Returns:
        Value → class; nothing for classification.

    Raises:
        DataError: if the data set says nothing, and the masks have other values than 0 and 1, or 0 and 255; or if
            there are no masks to speak of. The text says which option tells what they mean.
    """
    if dataset.task == "classification":
        if asked is not None:
            raise DataError(f"--label-map: says what values in masks mean, but {dataset.name} has no masks.")
        return {}
    if asked is not None:
        return {0: 0} | dict(asked)
    result = {value for case in checked for value in case.values} - set(ignore)
    said = dataset.labels
    if said is not None and not (len(said) == 2 and result <= {0, 255} and not result <= said.keys()):
        return dict(said)
    if not (result <= {0, 1} or result <= {0, 255}):
        raise DataError(_unexplained(checked))
    if result <= {0}:
        raise DataError("Found only empty masks; expected some with a lesion, or a label map that says its value.")
    return {0: 0, max(result): 1}


def with_known_values(
    checked: Sequence[CheckedCase], labels: Mapping[int, int], excluded: list[LeftOut]
) -> list[CheckedCase]:
    """The cases whose mask values all have a class; the others are added to the excluded, with the option for them."""
    usable: list[CheckedCase] = []
    for case in checked:
        unknown = [value for value in case.values if value not in labels]
        if unknown:
            name = case.source.path or case.label_file.name
            excluded.append(LeftOut(name, "label values without a class", _unknown(case, unknown, labels)))
        else:
            usable.append(case)
    return usable


def as_option(labels: Mapping[int, int]) -> str:
    """Write label values as ``--label-map`` has them, without 0 → 0: ``128-255:1``."""
    parts = [
        f"{first if first == last else f'{first}-{last}'}:{label}"
        for first, last, label in runs(labels)
        if (first, last, label) != (0, 0, 0)
    ]
    return ",".join(parts)


def grey_values(checked: Sequence[CheckedCase], labels: Mapping[int, int]) -> str | None:
    """Say which fraction of the pixels has values between those that most of their class have, None if there are none.

    A lossy mask has them, also one that was smoothed; its classes are then a matter of the label map's limits.
    """
    counts_of_values: dict[int, Counter[int]] = {}
    for case in checked:
        for value, count in case.counts.items():
            counts_of_values.setdefault(labels[value], Counter())[value] += count.pixels
    plain = {counter.most_common(1)[0][0] for counter in counts_of_values.values()}
    shares = _shares_of_others(checked, plain)
    if not any(shares):
        return None
    return f"Grey values: {_share_text(checked, shares)} other values than {show_values(sorted(plain))}."


def _unexplained(checked: Sequence[CheckedCase]) -> str:
    """What masks hold that do not explain themselves, and the option that says it."""
    masks: Counter[int] = Counter(value for case in checked for value in case.values)
    pixels: Counter[int] = Counter()
    for case in checked:
        pixels.update({value: count.pixels for value, count in case.counts.items()})
    largest = max(masks)
    if len(masks) > _MOST_CLASSES and _at_the_ends(pixels, largest) >= _SHARE_AT_THE_ENDS:
        middle = (largest + 1) // 2
        shares = _shares_of_others(checked, {0, largest})
        return (
            f"Found masks in grey values from {min(masks)} to {largest}: {_share_text(checked, shares)} values "
            "between, as lossy compression and smoothing leave them. Say from which value on a pixel is lesion, for "
            f"example --label-map {middle}-{largest}:1."
        )
    if (stray := _stray(masks, len(checked), pixels)) is not None:
        counts_of_values, strays = stray
        where = "; ".join(_where(checked, value) for value in strays[:_SHOWN_VALUES])
        rest = ",".join(f"{value}:0" for value in strays)
        return (
            f"Found {'a stray label value' if len(strays) == 1 else f'{len(strays)} stray label values'} besides 0 and "
            f"{counts_of_values}: {where}. Accept {'it' if len(strays) == 1 else 'them'} as background with "
            f"--label-map "
            f"{counts_of_values}:1,{rest}, or as lesion with {rest.replace(':0', ':1')} there; or correct the masks."
        )
    values = sorted(value for value in masks if value)
    first, *others = values
    example = f"{first}:1" + (f",{others[0]}:2" if others else "")
    numbered = " If they number objects of one class: --instances." if values == list(range(1, len(values) + 1)) else ""
    named = f' --classes "lesion{",cyst" if others else ""}"'
    if values == [1, 255]:
        example, named = "1:1,255:1", ""
    # The first mask that shows the question.
    odd = next(case for case in checked if not {*case.values} <= {0, 1} or (values == [1, 255] and 255 in case.values))
    return (
        f"{odd.label_file}: found the label values {show_values(odd.values)}, in all masks "
        f"{show_values(sorted(masks))}; without a label map expected 0 and 1, or 0 and 255, in all masks. Say what "
        f"they mean, for example --label-map {example}{named}.{numbered}"
    )


def _at_the_ends(pixels: Mapping[int, int], largest: int) -> float:
    near = sum(count for value, count in pixels.items() if min(value, largest - value) <= _END * largest)
    return near / sum(pixels.values())


def _stray(masks: Mapping[int, int], count: int, pixels: Mapping[int, int]) -> tuple[int, list[int]] | None:
    """The value of a lesion that most masks have, and those that few have; None where that is not how it is."""
    foreground = sorted((value for value in masks if value), key=lambda value: (-masks[value], -pixels.get(value, 0)))
    counts_of_values, *others = foreground
    few = [
        value
        for value in others
        if masks[value] <= max(1, _SHARE_OF_STRAYS * count) and masks[value] < masks[counts_of_values]
    ]
    return (counts_of_values, sorted(few)) if others and len(few) == len(others) else None


def _where(checked: Sequence[CheckedCase], value: int) -> str:
    having = [case for case in checked if value in case.values]
    count, case = sum(case.counts[value].pixels for case in having if value in case.counts), having[0]
    masks = f"{len(having)} masks, " if len(having) > 1 else ""
    return f"{value} in {count} pixels of {masks}{case.label_file}"


def _shares_of_others(checked: Sequence[CheckedCase], plain: set[int]) -> list[float]:
    """Of every mask the fraction of its pixels with other values than the plain ones."""
    return [
        sum(count.pixels for value, count in case.counts.items() if value not in plain) / case.pixels
        for case in checked
    ]


def _share_text(checked: Sequence[CheckedCase], shares: Sequence[float]) -> str:
    worst = max(range(len(shares)), key=lambda index: shares[index])
    total = sum(case.pixels for case in checked)
    all_of_them = sum(share * case.pixels for share, case in zip(shares, checked, strict=True)) / total
    concerned = sum(share > 0 for share in shares)
    return (
        f"{all_of_them:.2%} of the pixels, in {concerned} of {len(checked)} masks (most in "
        f"{checked[worst].label_file.name}: {shares[worst]:.2%}), have"
    )


def _unknown(case: CheckedCase, unknown: Sequence[int], labels: Mapping[int, int]) -> str:
    """Why a case's mask cannot be used with this mapping, and the whole option with which it can."""
    expected = as_option({value: label for value, label in labels.items() if value and label != IGNORED_LABEL}) or "0"
    counted = [
        f"{value} ({case.counts[value].pixels} of {case.pixels} pixels)" if value in case.counts else str(value)
        for value in unknown[:_SHOWN_VALUES]
    ]
    more = ", …" if len(unknown) > _SHOWN_VALUES else ""
    return (
        f"{case.label_file}: found the label values {', '.join(counted)}{more} besides those of the label map "
        f"({expected}). If such pixels count nowhere: --ignore {','.join(map(str, unknown))}. To take "
        f"{'it' if len(unknown) == 1 else 'them'} as background: --label-map "
        f"{expected},{','.join(f'{value}:0' for value in unknown)}."
    )
