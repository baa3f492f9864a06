"""The picture of weights over rounds: bars of the right height, and effective sites beside the bound."""

import numpy as np
import pytest
from plain_records import summary

from fedannot.apps.reports.weights_picture import has_weights, weights_figure


def weighed(number, weights, effective):
    return {"round": number, "stage": "s", "seconds": 1.0, "weights": weights, "effective_sites": effective}


SITES = {site: {"num_samples": 5} for site in ("site-1", "site-2", "site-10")}
ROUNDS = [
    weighed(1, {"site-1": 0.25, "site-2": 0.25, "site-10": 0.5}, 2.67),
    weighed(2, None, None),
    # site-10 is absent.
    weighed(3, {"site-1": 0.9, "site-2": 0.1}, 1.22),
]


def test_bars_are_the_weights_and_add_up_to_one():
    upper, _ = weights_figure(summary(sites=SITES, rounds=ROUNDS)).axes
    heights = np.array([[bar.get_height() for bar in bars] for bars in upper.containers])
    np.testing.assert_allclose(heights, [[0.25, 0.9], [0.25, 0.1], [0.5, 0.0]])
    tops = [bar.get_y() + bar.get_height() for bar in upper.containers[-1]]
    assert tops == pytest.approx([1.0, 1.0])
    assert [bar.get_x() + bar.get_width() / 2 for bar in upper.containers[0]] == pytest.approx([1, 3])
    assert [text.get_text() for text in upper.get_legend().get_texts()] == ["site-1", "site-2", "site-10"]


def test_effective_sites_lie_beside_the_bound_of_the_warning():
    _, lower = weights_figure(summary(sites=SITES, rounds=ROUNDS)).axes
    line, bound = lower.lines
    np.testing.assert_allclose(line.get_xydata(), [[1, 2.67], [3, 1.22]])
    assert set(bound.get_ydata()) == {1.5}


def test_of_many_sites_each_has_a_row_in_natural_order_and_there_is_no_legend():
    sites = [f"site-{number}" for number in range(13, 0, -1)]
    rounds = [
        weighed(1, {site: number / 91 for number, site in enumerate(sites, 1)}, 13.0),
        weighed(2, None, None),
        weighed(3, dict.fromkeys(sites[1:], 1 / 12), 12.0),
    ]
    figure = weights_figure(summary(sites={site: {"num_samples": 1} for site in sites}, rounds=rounds))
    upper = figure.axes[0]
    assert upper.get_legend() is None
    assert [label.get_text() for label in upper.get_yticklabels()] == sites[::-1]
    (image,) = upper.images
    cells = image.get_array().filled(np.nan)
    np.testing.assert_allclose(cells[:, 0], np.arange(13, 0, -1) / 91)
    # A round without weights is empty, and so is a site that was absent.
    assert np.isnan(cells[:, 1]).all()
    np.testing.assert_allclose(cells[:-1, 2], 1 / 12)
    assert np.isnan(cells[-1, 2])
    # Rows begin at the top, rounds lie where the lower axis has them.
    assert image.get_extent() == [0.5, 3.5, 12.5, -0.5]


@pytest.mark.parametrize(
    ("sites", "rounds", "expected"),
    [
        (SITES, ROUNDS, True),
        (SITES, ROUNDS[1:2], False),
        ({"a": SITES["site-1"]}, [weighed(1, {"a": 1.0}, 1.0)], False),
    ],
)
def test_one_site_and_runs_of_earlier_versions_have_no_picture(sites, rounds, expected):
    assert has_weights(summary(sites=sites, rounds=rounds)) is expected
