"""Splits for cross-validation: each patient is tested once, and never on both sides."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from fedannot.custom.data.datalist import Case, read_datalist, write_datalist
from fedannot.custom.data.description import ImageDescription, write_site_description
from fedannot.custom.data.federation import FederationDescription, read_federation, write_federation
from fedannot.custom.data.splits import folds_of_sites, patient_folds, write_folds, write_left_out_sites
from fedannot.transforms.errors import DataError

DESCRIPTION = ImageDescription(channels=1, size=(4, 4), classes=("lesion",), labels={0: 0, 255: 1})


def write_source(folder: Path, patients: dict[str, int]) -> Path:
    """Sites of patients with two images each, with a validation case of the first patient and a testing case."""
    for site, count in patients.items():
        root = folder / site
        (root / "images").mkdir(parents=True)
        write_site_description(root, DESCRIPTION)
        lists: dict[str, list[Case]] = {"training": [], "validation": [], "testing": []}
        for patient in range(count):
            for view in range(4 if patient == 0 else 2):
                files = [root / "images" / f"{patient}-{view}{kind}.png" for kind in ("", "-given", "-clean")]
                for file in files:
                    file.write_text(f"{site} {file.name}")
                section = ("training", "training", "validation", "testing")[view]
                lists[section].append(Case(files[0], files[1], clean_label=files[2], group=f"p{patient}"))
        write_datalist(root / "datalist.json", lists)
    write_federation(folder, FederationDescription(name="source", sites=tuple(patients)))
    return folder


def cases(folder: Path, section: str) -> list[Case]:
    return read_datalist(folder / "datalist.json").section(section)


def test_every_patient_is_tested_once_and_never_trained_on(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", {"a": 5, "b": 3})
    folds = write_folds(source, tmp_path / "folds", 3, seed=0)
    assert [fold.name for fold in folds] == ["fold-1", "fold-2", "fold-3"]
    tested: Counter[str | None] = Counter()
    for fold in folds:
        assert read_federation(fold).sites == ("a", "b")
        of_test = cases(fold / "test", "testing")
        held_out = {case.group for case in of_test}
        tested.update(case.group for case in of_test)
        for site in ("a", "b"):
            training = cases(fold / site, "training")
            of_site = {f"{site}/{case.group}" for case in training + cases(fold / site, "validation")}
            assert not of_site & held_out
            assert len(training) + sum(case.image.parts[-3] == site for case in of_test) == 2 * {"a": 5, "b": 3}[site]
            assert cases(fold / site, "testing") == []
    # Both images of the five and three patients.
    assert tested == dict.fromkeys([f"a/p{n}" for n in range(5)] + [f"b/p{n}" for n in range(3)], 2)


def test_the_test_set_has_the_annotations_without_noise_and_images_are_links(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", {"a": 2, "b": 2})
    (fold, _) = write_folds(source, tmp_path / "folds", 2, seed=1)
    for case in cases(fold / "test", "testing"):
        site = case.image.parts[-3]
        assert isinstance(case.label, Path)
        assert case.label.read_text() == f"{site} {case.image.stem}-clean.png"
        assert case.image.samefile(source / site / "images" / case.image.name)
    given = cases(fold / "a", "training")[0]
    assert isinstance(given.label, Path)
    assert given.label.name.endswith("-given.png")


def test_folds_follow_from_the_seed_and_stay(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", {"a": 6, "b": 6})
    names = [f"p{n}" for n in range(6)]
    assert patient_folds(names, 3, 0, "a") == patient_folds(names, 3, 0, "a")
    assert len({tuple(patient_folds(names, 3, seed, "a")) for seed in range(5)}) > 1
    assert patient_folds(names, 3, 0, "a") != patient_folds(names, 3, 0, "b")
    first = write_folds(source, tmp_path / "folds", 3, seed=0)
    before = [(fold / "a" / "datalist.json").stat().st_mtime_ns for fold in first]
    again = write_folds(source, tmp_path / "folds", 3, seed=0)
    assert before == [(fold / "a" / "datalist.json").stat().st_mtime_ns for fold in again]


def test_each_site_is_left_out_once(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", {"a": 1, "b": 2, "c": 3})
    for folder, site in zip(write_left_out_sites(source, tmp_path / "left-out"), "abc", strict=True):
        assert folder.name == f"without-{site}"
        assert read_federation(folder).sites == tuple(name for name in "abc" if name != site)
        of_test = cases(folder / "test", "testing")
        # All of its lists: two images of each patient, and two more of the first one.
        assert len(of_test) == {"a": 4, "b": 6, "c": 8}[site]
        assert {case.image.parts[-3] for case in of_test} == {site}


def part_patients(source: Path) -> Path:
    """Say of a federation that its cases were dealt out one by one."""
    federation = read_federation(source)
    write_federation(source, federation.model_copy(update={"patients_parted": True}))
    return source


def test_a_patient_of_two_sites_is_in_one_fold_at_both_and_counts_once(tmp_path: Path) -> None:
    source = part_patients(write_source(tmp_path / "source", {"a": 5, "b": 3, "c": 4}))
    # One whom another site only validates on.
    lists = {name: cases(source / "c", name) for name in ("training", "validation", "testing")}
    lists["validation"] = [replace(case, group="p4") for case in lists["validation"]]
    write_datalist(source / "c" / "datalist.json", lists)
    tested: Counter[str | None] = Counter()
    for fold in write_folds(source, tmp_path / "folds", 3, seed=0):
        of_test = {case.group for case in cases(fold / "test", "testing")}
        tested.update(of_test)
        for site in "abc":
            names = {case.group for name in ("training", "validation") for case in cases(fold / site, name)}
            assert cases(fold / site, "training")
            assert not names & of_test
    assert tested == dict.fromkeys([f"p{number}" for number in range(5)], 1)


def test_folds_of_sites_that_share_patients_are_even() -> None:
    names = {"a": ["p", "q", "r", "s"], "b": ["q", "r", "t", "u"], "c": ["v", "w"]}
    for seed in range(5):
        folds = folds_of_sites(names, 2, seed)
        for site in "abc":
            assert sorted(name for fold in folds[site] for name in fold) == names[site]
            sizes = [len(fold) for fold in folds[site]]
            assert max(sizes) - min(sizes) <= 1
        assert all(("q" in first) == ("q" in second) for first, second in zip(folds["a"], folds["b"], strict=True))
    # Nothing changes where no name is shared.
    alone = folds_of_sites({"a": ["p", "q", "r"], "b": ["s", "t"]}, 2, 7)
    assert alone == {"a": patient_folds(["p", "q", "r"], 2, 7, "a"), "b": patient_folds(["s", "t"], 2, 7, "b")}
    # Three sites of two patients of three: with two folds one site has both of its in the same.
    with pytest.raises(DataError, match="found all of its 2 patients in one fold of 2, as other sites have"):
        folds_of_sites({"a": ["p", "q"], "b": ["q", "r"], "c": ["p", "r"]}, 2, 0)


def test_a_site_is_not_left_out_whose_patients_others_have(tmp_path: Path) -> None:
    source = part_patients(write_source(tmp_path / "source", {"a": 2, "b": 2}))
    with pytest.raises(DataError, match=r"found cases of the same patient at a and b, .* without --part-patients"):
        write_left_out_sites(source, tmp_path / "left-out")
    assert not (tmp_path / "left-out").exists()


@pytest.mark.parametrize(
    ("patients", "count", "message"),
    [
        ({"a": 1, "b": 3}, 2, "found 1 patient; expected at least 2 for folds"),
        ({"a": 3}, 1, "at least 2 folds, but got 1"),
        ({"a": 2}, 5, "of 5 has no patient; expected fewer folds"),
    ],
)
def test_what_cannot_be_split_is_refused(patients: dict[str, int], count: int, message: str, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", patients)
    with pytest.raises(DataError, match=message):
        write_folds(source, tmp_path / "folds", count, seed=0)


def test_sites_with_other_descriptions_and_a_single_site_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found 1 site; expected at least 2"):
        write_left_out_sites(write_source(tmp_path / "one", {"a": 2}), tmp_path / "out")
    source = write_source(tmp_path / "source", {"a": 2, "b": 2})
    write_site_description(source / "b", DESCRIPTION.model_copy(update={"size": (8, 8)}))
    with pytest.raises(DataError, match="key 'size' differs from that of a"):
        write_folds(source, tmp_path / "folds", 2, seed=0)
