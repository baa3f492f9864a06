"""How many objects a site leaves out, against numbers counted by hand."""

import pytest

from fedannot.custom.audit.kinds.kind import Measured, Suspicion
from fedannot.custom.audit.kinds.left_out import left_out, missing_share


def counted(size, probability, patient=0, *, is_annotated=False):
    return Measured(Suspicion(0, ()), f"p{patient}", size, "ml"), probability, is_annotated


def site(missing_small, missing_large):
    """Ten patients with a small and a large annotated lesion, and some that the model alone sees."""
    objects = []
    for patient in range(10):
        objects += [counted(0.5, 0.0, patient, is_annotated=True), counted(4.0, 0.0, patient, is_annotated=True)]
        objects += [counted(0.5, missing_small, patient), counted(4.0, missing_large, patient)]
    return objects


def test_the_share_is_that_of_what_is_expected_among_all():
    # 10 times 1/4 beside 10 annotated ones.
    share = missing_share([item for item in site(0.25, 0.0) if item[0].size == 0.5])
    assert share.value == pytest.approx(0.2)
    assert share.low == pytest.approx(share.high) == pytest.approx(0.2)
    assert missing_share([]) is None


def test_small_lesions_are_reported_separately():
    result = left_out(site(0.25, 0.01), "lesion")
    assert result.numbers == {
        "share": pytest.approx(0.2),
        "low": pytest.approx(0.2),
        "high": pytest.approx(0.2),
        "limit": pytest.approx(2.25, abs=0.05),
        "larger": pytest.approx(0.01, abs=0.001),
    }
    assert result.names == {"class": "lesion", "unit": "ml"}


def test_where_all_are_missing_alike_all_are_said():
    result = left_out(site(0.9, 0.9), "lesion")
    # 0.9 beside each annotated one.
    assert result.numbers == {name: pytest.approx(0.9 / 1.9) for name in ("share", "low", "high")}


@pytest.mark.parametrize("objects", [site(0.05, 0.05), site(0.9, 0.9)[:8]], ids=["little missing", "two patients"])
def test_nothing_is_said_of_little(objects):
    assert left_out(objects, "lesion") is None
