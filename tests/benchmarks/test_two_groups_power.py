"""How often the guard finds two groups of sites: where there are none, and where there are two."""

import numpy as np
import pytest

from fedannot.custom.methods.feda3i.two_groups import fit_two_groups

NOISE = 0.3  # of a column, independent, in standard deviations of the bias within a group
REPEATS = {6: 100, 10: 60, 20: 20, 50: 10}
SEPARATIONS = (6, 8)
HALF_WIDTH = 3**0.5  # of a uniform distribution with standard deviation 1


def stratified(generator, num_sites):
    """Biases in equal steps over an interval, one at random in each step, with standard deviation near 1."""
    return HALF_WIDTH * (2 * (np.arange(num_sites) + generator.random(num_sites)) / num_sites - 1)


def difficulty(generator, bias, num_classes=1):
    """A larger bias raises the inner and lowers the outer difficulty of every class."""
    signs = np.repeat([1.0, -1.0], num_classes)
    rows = bias[:, None] * signs + NOISE * generator.standard_normal((len(bias), 2 * num_classes))
    return {f"site-{index:02}": 1.0 + 0.2 * row for index, row in enumerate(rows)}


def found_share(num_sites, draw_bias, num_larger=None, num_classes=1):
    """Return the percentages of draws in which groups are found, and in which the right ones are."""
    result = right = 0
    for repeat in range(REPEATS[num_sites]):
        generator = np.random.default_rng((num_sites, repeat))
        groups = fit_two_groups(difficulty(generator, draw_bias(generator), num_classes), seed=repeat)
        result += groups.found
        right += groups.found and groups.larger == tuple(f"site-{index:02}" for index in range(num_larger or 0))
    return 100 * result / REPEATS[num_sites], 100 * right / REPEATS[num_sites]


@pytest.mark.benchmark
@pytest.mark.parametrize("num_sites", list(REPEATS))
def test_false_positives_and_power(num_sites, capsys):
    lines = [f"K = {num_sites}, {REPEATS[num_sites]} draws each"]
    for name, draw in (
        ("one Gaussian", lambda generator: generator.standard_normal(num_sites)),
        ("one direction, even strengths", lambda generator: generator.uniform(-HALF_WIDTH, HALF_WIDTH, num_sites)),
    ):
        lines.append(f"  {name:<32} found {found_share(num_sites, draw)[0]:4.0f}%  (false positives)")
    for larger, num_classes in ((0.8, 1), (0.5, 1), (0.8, 3)):
        num_larger = round(larger * num_sites)
        for separation in SEPARATIONS:

            def draw(generator, num_larger=num_larger, separation=separation):
                groups = stratified(generator, num_larger), stratified(generator, num_sites - num_larger) - separation
                return np.concatenate(groups)

            result, right = found_share(num_sites, draw, num_larger, num_classes)
            name = f"{num_larger}:{num_sites - num_larger}, C = {num_classes}, separation {separation}"
            lines.append(f"  {name:<32} found {result:4.0f}%, the right groups {right:4.0f}%")
    with capsys.disabled():
        print("\n" + "\n".join(lines))


# q_in and q_out of the generated lesions after five rounds, by the offset of the contours in pixels: means over five
# sites of the clean masks moved by so much (seed 100, N_S "D"). Sites with the same offset differ by a tenth.
OFFSETS = np.array([-6.0, -4.5, -3.0, -1.5, 0.0, 1.5, 3.0, 4.5, 6.0])
INNER = np.array([0.042, 0.075, 0.122, 0.219, 0.338, 0.497, 0.675, 0.851, 1.046])
OUTER = np.array([1.52, 0.874, 0.55, 0.316, 0.21, 0.144, 0.109, 0.09, 0.08])
BETWEEN_SITES = 0.1
STRONGEST = 6.0
OFFSET_REPEATS = {6: 60, 10: 60, 20: 20}


def measured(generator, offsets, *, logarithms):
    """Difficulties of sites with these offsets, or their logarithms."""
    logs = np.stack([np.interp(offsets, OFFSETS, np.log(column)) for column in (INNER, OUTER)], axis=1)
    logs += BETWEEN_SITES * generator.standard_normal(logs.shape)
    rows = logs if logarithms else np.exp(logs)
    return {f"site-{index:02}": row for index, row in enumerate(rows)}


def two_directions(share, smallest):
    """A fraction of the sites draws larger; strengths lie in equal steps from the smallest to the strongest."""

    def draw(generator, num_sites):
        larger = round(share * num_sites)
        steps = (np.arange(num_sites) + generator.random(num_sites)) / num_sites
        strengths = generator.permutation(smallest + (STRONGEST - smallest) * steps)
        return np.where(np.arange(num_sites) < larger, strengths, -strengths), larger

    return draw


def one_direction(sign):
    """All sites err in one direction, by strengths from 0."""
    return lambda generator, num_sites: (sign * STRONGEST * generator.random(num_sites), None)


FEDERATIONS = {
    "all larger, from 0": one_direction(1),
    "all smaller, from 0": one_direction(-1),
    "N_S, from half": two_directions(0.2, STRONGEST / 2),
    "N_E, from half": two_directions(0.8, STRONGEST / 2),
    "N_S, from 0": two_directions(0.2, 0.0),
}


@pytest.mark.benchmark
@pytest.mark.parametrize("num_sites", list(OFFSET_REPEATS))
def test_groups_of_difficulties_and_of_their_logarithms(num_sites, capsys):
    repeats = OFFSET_REPEATS[num_sites]
    lines = [f"K = {num_sites}, {repeats} draws each: found, the right groups in %, by q and by log q"]
    for name, draw in FEDERATIONS.items():
        shown = []
        for logarithms in (False, True):
            result = right = 0
            for repeat in range(repeats):
                generator = np.random.default_rng((num_sites, repeat))
                offsets, larger = draw(generator, num_sites)
                groups = fit_two_groups(measured(generator, offsets, logarithms=logarithms), seed=repeat)
                result += groups.found
                right += groups.found and groups.larger == tuple(f"site-{index:02}" for index in range(larger or 0))
            shown.append(f"{100 * result / repeats:4.0f} / {100 * right / repeats:3.0f}")
        lines.append(f"  {name:<22} {shown[0]}    {shown[1]}")
    with capsys.disabled():
        print("\n" + "\n".join(lines))
