"""Wrong class labels: the probabilities are those of the paper, draws are seeded, replayed and independent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedannot.transforms.errors import DataError
from fedannot.transforms.noise.class_noise import ClassNoise
from fedannot.transforms.noise.confusion_table import known_tables, read_confusions
from fedannot.transforms.noise.mislabel import Mislabel, MislabelParams

CONFUSIONS = ((1, 2, 3), (0,), (1, 3), ())


def test_transitions_by_hand():
    assert ClassNoise.parse("S30").transition_matrix(4).tolist() == [
        [0.7 if row == column else pytest.approx(0.1) for column in range(4)] for row in range(4)
    ]
    assert ClassNoise.parse("P20").transition_matrix(3).tolist() == [[0.8, 0.2, 0], [0, 0.8, 0.2], [0.2, 0, 0.8]]
    clinical = ClassNoise.parse("C60").transition_matrix(4, CONFUSIONS)
    expected = [[0.4, 0.2, 0.2, 0.2], [0.6, 0.4, 0, 0], [0, 0.3, 0.4, 0.3], [0, 0, 0, 1]]
    np.testing.assert_allclose(clinical, expected, atol=1e-15)
    assert ClassNoise.parse("0").transition_matrix(5).tolist() == np.eye(5).tolist()


@given(st.sampled_from("SPC"), st.integers(0, 100), st.integers(2, 9))
def test_rows_are_probabilities_and_the_diagonal_is_what_stays(letter, percent, num_classes):
    confusions = [[(label + 1) % num_classes] for label in range(num_classes)]
    matrix = ClassNoise.parse(f"{letter}{percent}").transition_matrix(num_classes, confusions)
    assert (matrix >= 0).all()
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    np.testing.assert_allclose(np.diag(matrix), 1 - percent / 100)


@pytest.mark.parametrize("text", ["S40", "P20", "C12.5", "S100"])
def test_drawn_labels_have_the_probabilities_of_the_matrix(text):
    noise = ClassNoise.parse(text)
    given_labels = np.repeat(np.arange(4), 20_000)
    assigned = Mislabel(noise, 4, CONFUSIONS).set_random_state(seed=3)(given_labels)
    counts = np.zeros((4, 4))
    np.add.at(counts, (given_labels, assigned), 1)
    # Four standard deviations of a fraction of 20,000 draws are at most 0.014.
    np.testing.assert_allclose(counts / 20_000, noise.transition_matrix(4, CONFUSIONS), atol=0.015)
    assert (counts[noise.transition_matrix(4, CONFUSIONS) == 0] == 0).all()


def test_a_draw_is_seeded_and_replayed():
    labels = np.arange(200) % 5
    mislabel = Mislabel(ClassNoise.parse("S40"), 5)
    params = mislabel.set_random_state(seed=1).make_params(labels)
    again = mislabel.set_random_state(seed=1)(labels)
    np.testing.assert_array_equal(params.assigned, again)
    assert (mislabel.set_random_state(seed=2)(labels) != again).any()
    replayed = MislabelParams.from_dict(params.to_dict())
    np.testing.assert_array_equal(mislabel.apply_transform(labels, replayed), again)
    with pytest.raises(ValueError, match="drawn for other labels"):
        mislabel.apply_transform(labels[::-1], params)


def test_no_labels_and_no_noise():
    assert Mislabel(ClassNoise.parse("S40"), 3)(np.zeros(0, dtype=int)).shape == (0,)
    labels = np.arange(60) % 3
    np.testing.assert_array_equal(Mislabel(ClassNoise.parse("0"), 3).set_random_state(seed=0)(labels), labels)


@pytest.mark.parametrize("text", ["", "X10", "S", "10", "S-10", "S101", "s40", "S40P20", "0-S10"])
def test_text_that_is_no_noise(text):
    with pytest.raises(ValueError, match=r"expected 0, or S, P or C"):
        ClassNoise.parse(text)


def test_a_pattern_names_the_noise_of_each_site():
    noise = ClassNoise.parse_sites("0-S40-P20-C20")
    assert [(item.kind, item.rate) for item in noise[1:]] == [("symmetric", 0.4), ("pairflip", 0.2), ("clinical", 0.2)]
    assert noise[0].rate == 0
    assert "-".join(map(str, noise)) == "0-S40-P20-C20"


def test_what_cannot_be_drawn():
    for noise, message in ((ClassNoise.parse("C10"), "found none"), (ClassNoise.parse("S10"), "at least two classes")):
        with pytest.raises(ValueError, match=message):
            Mislabel(noise, 1 if noise.kind == "symmetric" else 3)
    with pytest.raises(ValueError, match="from 0 to 2, but got 1 to 3"):
        Mislabel(ClassNoise.parse("S10"), 3)(np.array([1, 3]))


def test_the_papers_tables_fit_the_importers_classes():
    from fedannot.apps.importing.layouts import kvasir_capsule, oia_odir

    assert known_tables() == ("cell-phantom", "kvasir-capsule", "oia-odir")
    kvasir = read_confusions("kvasir-capsule", kvasir_capsule.CLASSES)
    odir = read_confusions("oia-odir", oia_odir.CLASSES)
    assert kvasir[0] == tuple(range(1, 10))
    assert {kvasir_capsule.CLASSES[other] for other in kvasir[9]} == {"Angiectasia", "Erosion"}
    assert odir[0] == tuple(range(1, 8))
    assert {oia_odir.CLASSES[other] for other in odir[4]} == {"Cataract", "Diabetic Retinopathy"}
    assert all(len(others) == 2 for table in (kvasir, odir) for others in table[1:])


def test_a_table_of_ones_own(tmp_path):
    file = tmp_path / "cells.yaml"
    file.write_text("Neutrophil: [Basophil]\nbasophil: any\nplatelet: []\nmonocyte: [neutrophil]\n")
    # The data have no monocytes, and other capitals.
    assert read_confusions(file, ("neutrophil", "Basophil", "Platelet")) == ((1,), (0, 2), ())
    # Named twice it is no more probable.
    file.write_text("Neutrophil: [Basophil, platelet, basophil]\nbasophil: any\nplatelet: []\n")
    confusions = read_confusions(file, ("neutrophil", "Basophil", "Platelet"))
    assert ClassNoise.parse("C40").transition_matrix(3, confusions)[0].tolist() == pytest.approx([0.6, 0.2, 0.2])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such confusion table; expected a YAML file or one of: cell-phantom, kvasir-capsule, oia-odir"),
        ("a: [b]\nb: [a", "is not YAML"),
        ("- a\n- b", "found list"),
        ("a: b\nb: any", r"the class 'a' has 'b'"),
        ("a: [c]\nb: any", r"mistaken for \['c'\], which have no entry"),
        ("a: [A]\nb: any", r"\['a'\] are mistaken for themselves"),
        ("a: [b]\nb: any", r"no entry for the classes \['C'\]"),
    ],
)
def test_a_wrong_table_says_what_is_wrong(tmp_path, content, message):
    file = tmp_path / "table.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(DataError, match=message):
        read_confusions(file, ("a", "b", "C") if "[b]\nb: any" in (content or "") else ("a", "b"))
