"""Labels that were corrected and then reviewed: which of them count, in whatever order that happened."""

import json
import shutil
from pathlib import Path

import pytest
from support.corrected_runs import made_corrections

from fedannot.apps.reports.corrections import find_corrections
from fedannot.custom.corrections.case_states import restore, revert
from fedannot.custom.corrections.model import CaseCorrection, CorrectionState, NewMask
from fedannot.custom.corrections.reviews_since import reviewed_labels
from fedannot.custom.corrections.store import CorrectionStore
from fedannot.transforms.errors import DataError

NAMES = ("a.png", "b.png", "c.png")
ITEMS = [{"image": f"image-{name}", "label": name} for name in NAMES]


def wrote_lists(data: Path, **lists: object) -> None:
    (data / "datalist.json").write_text(json.dumps({"training": ITEMS} | lists))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "data.yaml").write_text(
        "pipeline: image2d\nchannels: 1\nsize: [4, 4]\nclasses: [c]\nlabels: {0: 0, 1: 1}\n"
    )
    for name in NAMES:
        (folder / name).write_bytes(name.encode())
    wrote_lists(folder)
    return folder


def store(data: Path) -> CorrectionStore:
    return CorrectionStore(data.parent / "run", 9, lambda: reviewed_labels(data))


def corrected(data: Path, number: int, reverted: tuple[str, ...] = ()) -> Path:
    """Write what a method does in a round: a new mask of every case, reverted where it may replace none."""
    cases = tuple(
        CaseCorrection(
            image=f"image-{name}",
            label=name,
            state=CorrectionState.REVERTED if name in reverted else CorrectionState.ACTIVE,
            mask=NewMask(file=f"labels/{name}"),
        )
        for name in NAMES
    )
    folder = store(data).write(made_corrections(str(data), cases, round_number=number)).folder
    (folder / "labels").mkdir()
    for name in NAMES:
        (folder / "labels" / name).touch()
    return folder


def counting(data: Path) -> list[str]:
    """The given masks in whose place a new one counts, at the site; a listing says the same."""
    names = sorted(file.name for file in store(data).files_in_use(data))
    (listed,) = find_corrections(data.parent / "run")
    assert [case.name for case in listed.corrections.used_masks] == names
    return names


def test_a_corrected_mask_that_a_review_keeps_later_counts_as_given(data: Path) -> None:
    folder = corrected(data, 2)
    assert counting(data) == list(NAMES)
    # As `audit apply` writes it: the same mask, in the list and as the label before.
    wrote_lists(data, training=[ITEMS[0] | {"given_label": "a.png"}, *ITEMS[1:]], reference=ITEMS[1:2])
    assert counting(data) == ["c.png"]
    # Reverting another one says the right number; the record itself is as the method wrote it.
    assert [case.name for case in revert(folder, ["c.png"]).used_masks] == []
    assert [case.name for case in restore(folder, ["c.png"]).used_masks] == ["c.png"]
    # Without the review the correction counts again.
    wrote_lists(data)
    assert counting(data) == list(NAMES)


def test_a_copy_of_the_mask_in_the_list_of_reviewed_cases_is_a_review(data: Path) -> None:
    corrected(data, 2)
    shutil.copyfile(data / "a.png", data / "copy.png")
    wrote_lists(data, reference=[ITEMS[0] | {"label": "copy.png"}, ITEMS[1] | {"label": "copy.png"}])
    assert counting(data) == ["b.png", "c.png"]


def test_who_restores_after_the_review_has_the_last_word_also_in_later_rounds(data: Path) -> None:
    folder = corrected(data, 2)
    revert(folder, ["a.png"])
    restore(folder, ["a.png"])
    wrote_lists(data, reference=ITEMS[:2])
    assert counting(data) == ["c.png"]
    assert [case.name for case in restore(folder, ["a.png"]).used_masks] == ["a.png", "c.png"]
    assert counting(data) == ["a.png", "c.png"]
    # A method reverts what is reviewed and not restored since, and asks the store for the rest.
    corrected(data, 4, reverted=("b.png",))
    assert counting(data) == ["a.png", "c.png"]
    revert(store(data).folder_of(4), ["a.png"])
    restore(store(data).folder_of(4), ["b.png"])
    assert counting(data) == ["b.png", "c.png"]


def test_nothing_is_restored_where_the_datalist_cannot_be_read(data: Path) -> None:
    folder = corrected(data, 2)
    revert(folder)
    before = (folder / "corrections.json").read_bytes()
    (data / "datalist.json").write_text("{")
    with pytest.raises(DataError, match=r"datalist\.json"):
        restore(folder)
    assert (folder / "corrections.json").read_bytes() == before
