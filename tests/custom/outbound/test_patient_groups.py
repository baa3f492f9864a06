"""No group of patients, and no difference of what leaves, is of too few: against all unions that can be subtracted."""

from hypothesis import given
from hypothesis import strategies as st

from fedannot.custom.outbound.fields import MINIMUM_CASES
from fedannot.custom.outbound.patient_groups import released_groups

PATIENTS = st.sets(st.integers(0, 9).map(str), max_size=6)


@given(st.lists(PATIENTS, max_size=6), PATIENTS)
def test_what_is_left_of_all_patients_is_nobody_or_enough(groups, others):
    released = released_groups(groups, others)
    left = [group for group, leaves in zip(groups, released, strict=True) if leaves]
    assert all(len(group) >= MINIMUM_CASES for group in left)
    # Cases of groups are disjoint: who subtracts all that has left from all cases has those of these patients.
    rest = set(others).union(*(group for group, leaves in zip(groups, released, strict=True) if not leaves))
    assert not left or not rest or len(rest) >= MINIMUM_CASES


def test_one_patient_takes_the_smallest_group_along_and_no_more():
    ten, four, one = set(range(10)), set(range(10, 14)), {14}
    assert released_groups([one, ten, four]) == (False, True, False)
    assert released_groups([ten, four], {14}) == (True, False)
    assert released_groups([ten, four]) == (True, True)
    assert released_groups([ten, four], minimum=5) == (False, False)


def test_a_patient_of_two_annotators_counts_in_what_is_left():
    # Its other cases are in a group that leaves; those of the second group could be had by subtraction.
    assert released_groups([{"a", "b", "c"}, {"a"}]) == (False, False)
