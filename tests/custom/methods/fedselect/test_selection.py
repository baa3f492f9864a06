"""FedSelect's formulas: V, margins, draws, and the step of V."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

from fedannot.custom.methods.fedselect.drawing import (
    drawn_cases,
    drawn_sites,
    first_of_patients,
    number_of_sites,
    samples_of_cases,
)
from fedannot.custom.methods.fedselect.margins import proxy_cases, smoothed_margins
from fedannot.custom.methods.fedselect.meta_step import scorer_gradient
from fedannot.custom.methods.fedselect.outbound import NUM_PARAMETERS
from fedannot.custom.methods.fedselect.scorer import initial_scorer, selection_weights
from fedannot.custom.methods.fedselect.scorer_optimizer import ScorerOptimizer

LOSSES = [(2.0, 1.0, 0.5), (1.0, 0.9, 0.7), (0.9, 0.5, 0.6), (0.3, 0.45, 0.2)]


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("smoothed", [(1, 0.25, 0), (0.8, 1, 0), (1, 0.3125, 0)]),
        ("margins", [(1, 0.25, 0), (0.8, 1, 0), (1, 1, 0)]),
    ],
)
def test_margins_of_three_trainings_in_the_papers_and_in_the_programs_form(
    memory: str, expected: list[tuple[float, ...]]
) -> None:
    losses, kept, result = [torch.tensor(row) for row in LOSSES], None, []
    for before, now in itertools.pairwise(losses):
        made = smoothed_margins(before, now, kept, 0.5)
        kept = getattr(made, memory)
        result.append(tuple(made.smoothed.tolist()))
    assert np.array(result) == pytest.approx(np.array(expected), abs=1e-6)


def test_margins_that_are_all_the_same_are_zero_and_the_first_cases_are_the_proxy() -> None:
    made = smoothed_margins(torch.ones(4), torch.zeros(4), None, 0.5)
    assert made.smoothed.tolist() == [0.0] * 4
    assert proxy_cases(made.smoothed, 0.1, 3) == [0, 1, 2]
    assert proxy_cases(torch.tensor([0.1, 0.9, 0.4, 0.9]), 0.5, 1) == [1, 3]
    assert proxy_cases(torch.tensor([0.1, 0.9]), 0.5, 3) == [1, 0]


def test_the_scorer_is_the_network_of_its_numbers() -> None:
    scorer = torch.tensor(initial_scorer(5))
    assert scorer.shape == (NUM_PARAMETERS,)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        network = nn.Sequential(nn.Linear(1, 100), nn.ReLU(), nn.Linear(100, 1), nn.Sigmoid())
    losses = torch.tensor([0.0, 0.7, 3.0])
    expected = network(losses[:, None])[:, 0]
    assert torch.allclose(selection_weights(scorer, losses), expected, atol=1e-6)
    # What an untrained one says of 0.7, over a hundred seeds of the program.
    weights = [float(selection_weights(torch.tensor(initial_scorer(n)), torch.tensor([0.7]))) for n in range(100)]
    assert 0.3 < min(weights) < 0.4
    assert 0.6 < max(weights) < 0.7


class Quadratic(nn.Module):
    """Of one parameter θ = 0: the loss of a case with the number a is ½ (θ − a)²."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.theta - images

    @staticmethod
    def losses(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        del labels
        return 0.5 * outputs.square()


def test_the_step_of_the_scorer_is_the_hand_worked_one() -> None:
    """Cases at 1 and −2, the proxy at 1, η = 0.1, v = (0.5, 0.5): θ' = −0.025, ∂L/∂v = (−0.05125, 0.1025)."""
    network, cases, proxy = Quadratic(), torch.tensor([1.0, -2.0]), torch.tensor([1.0])
    # With w₁ = 1, b₁ = 0 and w₂ = 0 V is 0.5 of every loss, and ∂V/∂(w₂)ᵢ = V (1 − V) ℓ.
    scorer = torch.zeros(NUM_PARAMETERS)
    scorer[:100] = 1.0
    none = torch.zeros(0)
    of = {"step": 0.1, "losses": Quadratic.losses, "patients": ["a", "b"]}
    gradient = scorer_gradient(network, scorer, (cases, none), [(proxy, none)], smallest_group=1, **of)
    by_case, losses = (-0.05125, 0.1025), (0.5, 2.0)
    of_second = sum(change * 0.25 * loss for change, loss in zip(by_case, losses, strict=True))
    assert gradient[200:300].tolist() == pytest.approx([of_second] * 100, rel=1e-5)
    assert float(gradient[300]) == pytest.approx(0.25 * sum(by_case), rel=1e-5)
    assert gradient[:200].tolist() == [0.0] * 200
    assert float(network.theta.detach()) == 0.0
    # Proxy cases count the same however they come in batches.
    two = [(torch.tensor([1.0]), none), (torch.tensor([3.0, 0.0]), none)]
    one = [(torch.tensor([1.0, 3.0, 0.0]), none)]
    results = [scorer_gradient(network, scorer, (cases, none), parts, smallest_group=1, **of) for parts in (two, one)]
    assert torch.allclose(results[0], results[1], atol=1e-6)


def test_parameters_without_a_part_in_evaluation_mode_change_nothing() -> None:
    """Such as the heads of deep supervision."""

    class WithHead(Quadratic):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Parameter(torch.ones(1))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            outputs = super().forward(images)
            return outputs + self.head if self.training else outputs

    cases, proxy, none = torch.tensor([1.0, -2.0, 3.0]), torch.tensor([1.0]), torch.zeros(0)
    scorer = torch.tensor(initial_scorer(0))
    of = {"step": 0.1, "losses": Quadratic.losses, "patients": ["a", "b", "c"], "smallest_group": 1}
    gradients = [
        scorer_gradient(network, scorer, (cases, none), [(proxy, none)], **of) for network in (Quadratic(), WithHead())
    ]
    assert gradients[0].any()
    assert torch.equal(*gradients)


def test_the_gradient_has_kinks_at_means_over_groups_of_patients_alone() -> None:
    """A server that chooses V reads in the gradient where losses are: hidden unit j is max(ℓ − t_j, 0)."""
    cases = torch.tensor([1.0, 1.2, 1.5, 2.0, 2.2, 3.0, 3.1])
    patients, places = ["a", "b", "c", "d", "e", "f", "f"], torch.linspace(0, 5, 100, dtype=torch.float64)
    scorer = torch.cat([torch.ones(100), -places, torch.zeros(101)])
    single = 0.5 * cases.double() ** 2
    of_patients = [*single[:5].tolist(), float(single[5:].mean())]
    for smallest, expected in ((1, of_patients), (3, [np.mean(of_patients[:3]), np.mean(of_patients[3:])])):
        gradient = scorer_gradient(
            Quadratic(),
            scorer,
            (cases, torch.zeros(0)),
            [(torch.tensor([4.0]), torch.zeros(0))],
            patients=patients,
            smallest_group=smallest,
            step=0.1,
            losses=Quadratic.losses,
        )
        bends = np.abs(np.diff(gradient[200:300].double().numpy(), n=2))
        found = places.numpy()[1:-1][bends > 1e-3 * bends.max()]
        # A kink bends the two units around it.
        apart = np.abs(found[:, None] - np.array(expected))
        assert (apart.min(axis=1) < 0.06).all()
        assert (apart.min(axis=0) < 0.06).all()


def test_the_first_case_of_each_of_the_first_patients() -> None:
    assert first_of_patients(["a", "a", "b", "c", "b", "d"], 3) == [0, 2, 3]
    assert first_of_patients(["a", "a"], 3) == [0]


def test_the_optimizer_is_pytorchs_adam_over_a_restart() -> None:
    start = initial_scorer(1)
    gradients = torch.randn(3, NUM_PARAMETERS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    variable = nn.Parameter(torch.tensor(start, dtype=torch.float64))
    adam = torch.optim.Adam([variable], lr=1e-3, weight_decay=1e-4)
    made = ScorerOptimizer(start, 1e-3, 1e-4)
    for gradient in gradients:
        variable.grad = gradient
        adam.step()
        made.step(gradient.tolist())
        again = ScorerOptimizer([0.0] * NUM_PARAMETERS, 1e-3, 1e-4)
        again.restore(made.state())
        made = again
    assert made.parameters == variable.tolist()


def test_how_many_sites_train() -> None:
    assert [number_of_sites(count, 0.4, 1) for count in (1, 2, 3, 4, 5, 7, 10, 12)] == [1, 2, 2, 2, 2, 2, 4, 4]
    assert number_of_sites(100, 0.29, 1) == 29
    assert number_of_sites(4, 0.4, 3) == 3


def test_sites_are_drawn_in_proportion_to_their_weights() -> None:
    weights = {"a": 1.0, "b": 2.0, "c": 0.0, "d": 1.0}
    first = Counter(drawn_sites(weights, 1, seed)[0] for seed in range(4000))
    assert first["b"] / 4000 == pytest.approx(0.5, abs=0.03)
    assert first["c"] == 0
    # In turn without replacement: a with b, or b with a, is 1/4 · 2/3 + 1/2 · 1/2.
    pairs = Counter(tuple(drawn_sites(weights, 2, seed)) for seed in range(4000))
    assert pairs["a", "b"] / 4000 == pytest.approx(1 / 4 * 2 / 3 + 1 / 2 * 1 / 2, abs=0.03)
    assert drawn_sites(weights, 4, 0) == ["a", "b", "c", "d"]
    assert drawn_sites(dict.fromkeys("ab", 0.0), 1, 3) in (["a"], ["b"])


def test_cases_are_drawn_with_replacement_in_proportion_to_their_weights() -> None:
    weights = torch.tensor([1.0, 3.0, 0.0])
    counts = Counter(case for seed in range(2000) for case in drawn_cases(weights, ["p"] * 3, 0.7, seed))
    assert sum(counts.values()) == 2 * 2000
    assert counts[1] / 4000 == pytest.approx(0.75, abs=0.03)
    assert counts[2] == 0
    assert len(drawn_cases(torch.ones(1), ["p"], 0.1, 0)) == 1
    # 600 draws of 1000 are about 451 different ones.
    assert len(set(drawn_cases(torch.ones(1000), ["p"] * 1000, 0.6, 1))) == pytest.approx(451, abs=30)
    assert len(drawn_cases(torch.zeros(10), ["p"] * 10, 0.6, 1)) == 6


def test_an_update_is_of_three_patients_where_there_are_three() -> None:
    units = ["a", "a", "b", "b", "c"]
    for seed in range(50):
        drawn = drawn_cases(torch.tensor([1.0, 1.0, 0.1, 0.2, 0.0]), units, 0.4, seed)
        assert {units[case] for case in drawn} == {"a", "b", "c"}
        assert len(drawn) <= 4
        assert drawn_cases(torch.ones(2), ["a", "b"], 0.5, seed) == [0, 1]


def test_no_patient_has_more_than_a_third_of_the_draws() -> None:
    """A server may choose weights of which one case alone is not near 0."""
    weights = torch.full((30,), 1e-6)
    weights[7] = 1.0
    units = [f"p{case // 2}" for case in range(30)]
    for seed in range(20):
        uncapped = Counter(units[case] for case in drawn_cases(weights, units, 0.6, seed))
        assert uncapped["p3"] >= 18
        drawn = drawn_cases(weights, units, 0.6, seed, is_capped=True)
        counts = Counter(units[case] for case in drawn)
        assert len(drawn) >= 18
        assert max(counts.values()) == math.ceil(len(drawn) / 3)
    # Where there are two patients alone, nothing can be done.
    assert len(drawn_cases(torch.tensor([1.0, 0.0]), ["a", "b"], 1.0, 0, is_capped=True)) >= 2


def test_an_update_is_of_as_many_patients_and_samples_as_the_site_wants() -> None:
    """More are drawn, by their weights."""
    weights, units = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.5, 0.2]), list("aabcde")
    for seed in range(50):
        without = drawn_cases(weights, units, 0.5, seed)
        of_patients = drawn_cases(weights, units, 0.5, seed, patients=4)
        assert len({units[case] for case in of_patients}) >= 4
        of_samples = drawn_cases(weights, units, 0.5, seed, samples=5)
        assert len(set(of_samples)) >= 5
        # What is drawn for its number of samples comes in addition.
        assert not Counter(without) - Counter(of_samples)
        # A case of ten slices is enough, and all cases are where there are no more samples.
        slices = drawn_cases(weights, units, 0.5, seed, samples=10, counts=[10] * 6)
        assert slices == without
        assert set(drawn_cases(weights, units, 0.5, seed, samples=7)) == set(range(6))


def test_the_slices_of_a_case_that_is_drawn_twice_come_twice() -> None:
    used = torch.tensor([True, False, True, True, True, False])
    assert samples_of_cases([0, 2, 2], [2, 1, 3], None).tolist() == [0, 1, 3, 4, 5, 3, 4, 5]
    assert samples_of_cases([0, 2, 2], [2, 1, 3], used).tolist() == [0, 3, 4, 3, 4]
