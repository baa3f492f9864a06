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
    found = right = 0
    for repeat in range(REPEATS[num_sites]):
        generator = np.random.default_rng((num_sites, repeat))
        groups = fit_two_groups(difficulty(generator, draw_bias(generator), num_classes), seed=repeat)
        found += groups.found
        right += groups.found and groups.larger == tuple(f"site-{index:02}" for index in range(num_larger or 0))
    return 100 * found / REPEATS[num_sites], 100 * right / REPEATS[num_sites]


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

            found, right = found_share(num_sites, draw, num_larger, num_classes)
            name = f"{num_larger}:{num_sites - num_larger}, C = {num_classes}, separation {separation}"
            lines.append(f"  {name:<32} found {found:4.0f}%, the right groups {right:4.0f}%")
    with capsys.disabled():
        print("\n" + "\n".join(lines))
