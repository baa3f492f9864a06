"""Partial sums of any groups of sites, merged to a tree, give the bits of one sum over all sites."""

from collections.abc import Callable
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedannot.custom.aggregation.streaming_average import StreamingAverage
from fedannot.custom.aggregation.trimmed_mean import TrimmedMean

Params = dict[str, torch.Tensor]
BLOCK_OF = {"w": "deep", "b": "last", "count": "last"}
REFERENCE: Params = {"w": torch.zeros(3, 2), "b": torch.ones(2), "count": torch.tensor(0)}
TOTAL = 1000.0


def mean() -> StreamingAverage:
    return StreamingAverage(REFERENCE, BLOCK_OF, TOTAL)


def trimmed() -> TrimmedMean:
    return TrimmedMean(REFERENCE, BLOCK_OF, TOTAL, trim=2)


def site(number: int, random: Random) -> tuple[str, Params, dict[str, float], int]:
    """A site whose values often equal those of others, which only their names then tell apart."""
    scale = random.choice([1e-6, 0.1, 1.0])
    values = torch.tensor([random.choice([-1.0, 0.0, 1.0, random.gauss(0, 1)]) for _ in range(8)]) * scale
    params = {"w": values[:6].reshape(3, 2), "b": values[6:], "count": torch.tensor(number)}
    weights = {"deep": random.choice([0.0, 0.1, 1 / 3]), "last": random.random()}
    return f"site-{number}", params, weights, random.randint(1, 4)


def summed(sites: list[int], seed: int, empty: Callable[[], StreamingAverage]) -> StreamingAverage:
    average = empty()
    for number in sites:
        average.add(*site(number, Random(1000 * seed + number)))
    return average


def groups(items: list, random: Random) -> list[list]:
    """The same at random in one group to as many as there are; some may be empty."""
    number = random.randint(1, len(items))
    random.shuffle(items)
    chosen = [random.randrange(number) for _ in items]
    return [[item for item, of in zip(items, chosen, strict=True) if of == group] for group in range(number)]


def merged(parts: list[StreamingAverage], empty: Callable[[], StreamingAverage]) -> StreamingAverage:
    total = empty()
    for part in parts:
        total.merge(part)
    return total


@pytest.mark.parametrize("empty", [mean, trimmed])
@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), number=st.integers(5, 14))
def test_a_tree_of_three_levels_has_the_bits_of_one_sum(
    empty: Callable[[], StreamingAverage], seed: int, number: int
) -> None:
    random = Random(seed)
    flat = summed(list(range(number)), seed, empty).result()
    leaves = [summed(group, seed, empty) for group in groups(list(range(number)), random)]
    relays = [merged(group, empty) for group in groups(leaves, random)]
    tree = merged(relays, empty).result()
    assert all(flat[name].numpy().tobytes() == tree[name].numpy().tobytes() for name in flat)


def test_a_merged_average_takes_more_sites_and_the_other_is_gone() -> None:
    total, other = summed([0, 1], 1, trimmed), summed([2, 3], 1, trimmed)
    total.merge(other)
    total.add(*site(4, Random(1004)))
    assert total.sites == tuple(f"site-{number}" for number in range(5))
    expected = summed([0, 1, 2, 3, 4], 1, trimmed).result()
    assert all(torch.equal(value, expected[name]) for name, value in total.result().items())
    with pytest.raises(ValueError, match="whose result has not been given"):
        other.add(*site(5, Random(1005)))


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (trimmed, "the same kind"),
        (lambda: StreamingAverage(REFERENCE | {"b": torch.zeros(2)}, BLOCK_OF, TOTAL), "global model"),
        (lambda: StreamingAverage(REFERENCE, BLOCK_OF, 2 * TOTAL), "bound of weights"),
        (lambda: summed([1, 2], 1, mean), "site-1 is in both"),
    ],
)
def test_what_does_not_belong_together_is_refused_and_changes_nothing(
    other: Callable[[], StreamingAverage], reason: str
) -> None:
    total = summed([0, 1], 1, mean)
    with pytest.raises(ValueError, match=reason):
        total.merge(other())
    assert total.sites == ("site-0", "site-1")
    expected = summed([0, 1], 1, mean).result()
    assert all(torch.equal(value, expected[name]) for name, value in total.result().items())


def test_weights_beyond_the_bound_together_are_refused() -> None:
    one, two = (StreamingAverage({"w": torch.zeros(1)}, {"w": "all"}) for _ in range(2))
    for average, name in ((one, "a"), (two, "b")):
        average.add(name, {"w": torch.ones(1)}, {"all": 0.75}, 1)
    with pytest.raises(ValueError, match=r"sum to at most 1\.0, but 'all' has 1\.5"):
        one.merge(two)
