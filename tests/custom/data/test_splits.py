"""Splits for cross-validation: each patient is tested once, and never on both sides."""

from collections import Counter
from pathlib import Path

import pytest

from fedannot.custom.data.datalist import Case, read_datalist, write_datalist
from fedannot.custom.data.description import ImageDescription, write_site_description
from fedannot.custom.data.federation import FederationDescription, read_federation, write_federation
from fedannot.custom.data.splits import patient_folds, write_folds, write_left_out_sites
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
