"""A copy with wrong class labels: labels alone change, the true ones stay beside, and the manifest counts."""

import hashlib
import json

import numpy as np
import pytest
from PIL import Image

from fedannot.custom.data.datalist import TESTING, TRAINING, VALIDATION, Case, read_datalist, write_datalist
from fedannot.custom.data.description import ClassificationDescription, write_site_description
from fedannot.custom.data.federation import FederationDescription, read_federation, write_federation
from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.noise.mislabelled_copy import mislabel_cases
from fedannot.custom.data.overview import federation_overview
from fedannot.transforms.errors import DataError

CLASSES = ("neutrophil", "basophil", "platelet")
DESCRIPTION = ClassificationDescription(channels=1, size=(8, 8), classes=CLASSES)


def write_site(folder, sections):
    (folder / "images").mkdir(parents=True)
    cases = {}
    for section, labels in sections.items():
        cases[section] = []
        for index, label in enumerate(labels):
            file = folder / "images" / f"{section}_{index:03d}.png"
            Image.fromarray(np.full((8, 8), index % 256, dtype=np.uint8)).save(file)
            cases[section].append(Case(file, label, group=f"patient-{index // 2}", source="here"))
    write_datalist(folder / "datalist.json", cases)
    write_site_description(folder, DESCRIPTION)


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    for site in ("site-1", "site-2"):
        write_site(folder / site, {TRAINING: [index % 3 for index in range(90)], VALIDATION: [0, 1, 2] * 10})
    write_site(folder / "test", {TESTING: [0, 1, 2]})
    write_federation(folder, FederationDescription(name="cells", sites=("site-1", "site-2"), made="by hand"))
    return folder


def labels_of(folder, section=TRAINING):
    cases = read_datalist(folder / "datalist.json").section(section)
    return np.array([case.label for case in cases]), np.array([case.clean_label for case in cases])


def test_labels_change_at_their_site_and_true_ones_stay_beside(source, tmp_path):
    before = {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in source.rglob("*") if file.is_file()}
    mislabel_cases(source, tmp_path / "noisy", "0-P40", seed=1)
    assert {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in before} == before
    clean, _ = labels_of(source / "site-1")
    for section in (TRAINING, VALIDATION):
        given, true = labels_of(tmp_path / "noisy" / "site-1", section)
        np.testing.assert_array_equal(given, true)
        given, true = labels_of(tmp_path / "noisy" / "site-2", section)
        # Pairflip: what is wrong is the next class.
        assert set((given - true) % 3) == {0, 1}
    given, true = labels_of(tmp_path / "noisy" / "site-2")
    np.testing.assert_array_equal(true, clean)
    assert 20 <= (given != true).sum() <= 52  # 36 expected, 3.5 standard deviations
    manifest = read_manifest(tmp_path / "noisy" / "site-2")
    _, validation = labels_of(tmp_path / "noisy" / "site-2", VALIDATION)
    wrong = sum(
        (np.not_equal(*labels_of(tmp_path / "noisy" / "site-2", part))).sum() for part in (TRAINING, VALIDATION)
    )
    assert manifest.class_noise.model_dump() == {"noise": "P40", "num_cases": 90 + len(validation), "num_wrong": wrong}
    overview = {row.site: row.wrong for row in federation_overview(tmp_path / "noisy")}
    assert overview == {"site-1": 0, "site-2": wrong / 120, "test": None}
    federation = read_federation(tmp_path / "noisy")
    assert (federation.noise, federation.made) == ("labels 0-P40", "by hand; wrong labels 0-P40, seed 1")
    assert (tmp_path / "noisy/test/datalist.json").read_bytes() == (source / "test/datalist.json").read_bytes()


def test_the_same_seed_gives_the_same_labels_and_another_others(source, tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        mislabel_cases(source, tmp_path / name, "S50", seed=seed)
    first, again, other = (labels_of(tmp_path / name / "site-1")[0] for name in "abc")
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (first != labels_of(tmp_path / "a" / "site-2")[0]).any()


def test_noise_adds_up_and_the_first_true_labels_stay(source, tmp_path):
    mislabel_cases(source, tmp_path / "once", "P100")
    mislabel_cases(tmp_path / "once", tmp_path / "twice", "P100")
    given, true = labels_of(tmp_path / "twice" / "site-1")
    np.testing.assert_array_equal(true, labels_of(source / "site-1")[0])
    np.testing.assert_array_equal(given, (true + 2) % 3)
    assert read_federation(tmp_path / "twice").noise == "labels P100; labels P100"


def test_clinical_noise_by_a_table(source, tmp_path):
    table = tmp_path / "table.yaml"
    table.write_text("neutrophil: [platelet]\nbasophil: []\nplatelet: any\n")
    mislabel_cases(source, tmp_path / "noisy", "C100", table=table)
    given, true = labels_of(tmp_path / "noisy" / "site-1")
    assert set(zip(true.tolist(), given.tolist(), strict=True)) == {(0, 2), (1, 1), (2, 0), (2, 1)}


def test_a_case_without_a_class_is_left_out_and_named(source, tmp_path):
    site = source / "site-1"
    cases = read_datalist(site / "datalist.json").section(TRAINING)
    wrong = [Case(cases[0].image, 7), *cases[1:]]
    write_datalist(site / "datalist.json", {TRAINING: wrong})
    mislabel_cases(source, tmp_path / "noisy", "S10")
    assert len(labels_of(tmp_path / "noisy" / "site-1")[0]) == 89
    ((name, reason),) = read_manifest(tmp_path / "noisy" / "site-1").excluded
    assert name.endswith("training_000.png")
    assert reason.endswith("found the class '7'; expected 0 to 2.")


@pytest.mark.parametrize(
    ("pattern", "table", "message"),
    [
        ("0-S10-S20", None, "found 3 entries for 2 sites; expected 1 or all"),
        ("X10", None, "expected 0, or S, P or C"),
        ("0-C10", None, "clinical noise needs a table"),
        ("C10", "oia-odir", r"no entry for the classes \['neutrophil', 'basophil', 'platelet'\]"),
    ],
)
def test_what_cannot_be_done_leaves_nothing(source, tmp_path, pattern, table, message):
    with pytest.raises(DataError, match=message):
        mislabel_cases(source, tmp_path / "noisy", pattern, table=table)
    assert not (tmp_path / "noisy").exists()


def test_reviewed_cases_get_no_noise(source, tmp_path):
    file = source / "site-1" / "datalist.json"
    cases = read_datalist(file).section(TRAINING)
    write_datalist(file, {TRAINING: cases, "reference": cases[:1]})
    with pytest.raises(DataError, match=r"Site site-1: .* has reviewed cases, the first training_000\.png"):
        mislabel_cases(source, tmp_path / "noisy", "S10")
    assert not (tmp_path / "noisy").exists()


def test_who_labelled_a_case_is_kept(source, tmp_path):
    file = source / "site-2" / "datalist.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    for number, case in enumerate(values[TRAINING]):
        case["annotator"] = f"Reader {number % 2}"
    file.write_text(json.dumps(values), encoding="utf-8")
    mislabel_cases(source, tmp_path / "noisy", "0-P40", seed=1)
    cases = read_datalist(tmp_path / "noisy" / "site-2" / "datalist.json").section(TRAINING)
    assert [case.annotator for case in cases] == [f"Reader {number % 2}" for number in range(len(cases))]
