"""Which patients which model of an audit learns."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedannot.custom.methods.audit.folds import fold_of_round, parts
from fedannot.custom.methods.audit.settings import AuditSettings
from fedannot.custom.settings import SettingsError, read_settings


def test_every_model_has_its_own_rounds():
    assert [fold_of_round(number, 3) for number in range(1, 10)] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@given(st.sets(st.text(min_size=1), min_size=2, max_size=30), st.integers(2, 5))
def test_every_patient_is_predicted_once_and_parts_differ_by_one(units, folds):
    result = parts(units, folds, seed=3, site="a")
    assert set(result) == units
    sizes = Counter(result.values())
    assert max(sizes.values()) - min(sizes.get(fold, 0) for fold in range(folds)) <= 1


def test_samples_of_a_patient_stay_together_in_whatever_order():
    units = ["b", "a", "c", "a", "b", "d"]
    assert parts(units, 2, seed=1, site="x") == parts(sorted(set(units)), 2, seed=1, site="x")


def test_parts_hang_on_the_seed_and_the_site():
    units = [str(number) for number in range(40)]
    result = [parts(units, 2, seed=seed, site=site) for seed, site in ((1, "a"), (1, "b"), (2, "a"))]
    assert result[0] != result[1] != result[2] != result[0]


@pytest.mark.parametrize(("units", "folds"), [(["a", "a"], 2), (["a", "b", "c"], 1), ([], 3)])
def test_where_nothing_can_be_parted_all_is_learnt(units, folds):
    assert parts(units, folds, seed=1, site="a") == {}


def test_models_share_the_rounds_equally():
    assert AuditSettings(rounds=12, folds=3).rounds_of_fold == 4
    with pytest.raises(SettingsError, match="rounds is 10, which 3 folds cannot share; expected a multiple of folds"):
        read_settings(AuditSettings, {"rounds": 10, "folds": 3}, "file")
