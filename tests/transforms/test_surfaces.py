"""Contours finer than the pixel against circles, spheres and brute force."""

import math

import numpy as np
import pytest
from scipy import ndimage

from fedannot.transforms.surfaces import surface_of_mask, surface_of_probabilities


def distance_from(centre, shape, spacing):
    axes = np.meshgrid(*(np.arange(n) * s for n, s in zip(shape, spacing, strict=True)), indexing="ij")
    return np.sqrt(sum((axis - at) ** 2 for axis, at in zip(axes, centre, strict=True)))


def on_sphere(generator, centre, radius, count=300):
    ways = generator.standard_normal((count, len(centre)))
    return centre + radius * ways / np.linalg.norm(ways, axis=1, keepdims=True)


@pytest.mark.parametrize("radius", [3, 8, 20])
@pytest.mark.parametrize("away", [-2, -0.5, 0, 0.5, 2, 5])
def test_distances_to_a_disc_are_those_to_its_circle(radius, away):
    generator = np.random.default_rng(100)
    errors = []
    for _ in range(10):
        centre = generator.uniform(30, 34, 2)
        surface = surface_of_mask(distance_from(centre, (64, 64), (1, 1)) <= radius)
        result = surface.signed_distances(on_sphere(generator, centre, radius + away))
        errors.append(result.mean() - away)
    assert abs(np.mean(errors)) < 0.1


@pytest.mark.parametrize("away", [-3, 0, 3])
def test_distances_to_a_ball_are_in_millimetres(away):
    generator = np.random.default_rng(100)
    shape, spacing, radius = (48, 48, 24), (1.0, 1.0, 2.0), 14.0
    centre = np.array([23.2, 24.1, 23.4])
    surface = surface_of_mask(distance_from(centre, shape, spacing) <= radius, spacing)
    result = surface.signed_distances(on_sphere(generator, centre, radius + away))
    assert abs(result.mean() - away) < 0.15


def test_distances_agree_with_brute_force_over_the_edges_between_pixels():
    generator = np.random.default_rng(101)
    for _ in range(5):
        mask = ndimage.gaussian_filter(generator.standard_normal((14, 14)), 2.5) > 0
        mask[0] = mask[-1] = mask[:, 0] = mask[:, -1] = False
        labelled, count = ndimage.label(mask, structure=np.ones((3, 3)))
        if count == 0:
            continue
        inside = labelled == 1
        edges = [
            ((r + r2) / 2, (c + c2) / 2)
            for r in range(14)
            for c in range(14)
            for r2, c2 in ((r + 1, c), (r, c + 1))
            if r2 < 14 and c2 < 14 and inside[r, c] != inside[r2, c2]
        ]
        places = np.argwhere(np.ones_like(inside)).astype(float)
        brute = np.array([min(math.dist(place, edge) for edge in edges) for place in places])
        brute = np.where(inside.ravel(), -brute, brute)
        result = surface_of_mask(inside).signed_distances(places)
        # The staircase itself is up to half a pixel from a smooth contour, a corner cut off a little more.
        assert np.abs(result - brute).max() < 1.0
        assert abs((result - brute).mean()) < 0.15


def test_a_single_pixel_has_a_contour():
    mask = np.zeros((9, 9), dtype=bool)
    mask[4, 4] = True
    surface = surface_of_mask(mask)
    assert surface.signed_distances(np.array([[4.0, 4.0]]))[0] < 0
    assert surface.signed_distances(np.array([[4.0, 8.0]]))[0] == pytest.approx(3.5, abs=0.2)


def test_there_is_no_contour_on_the_border_of_the_image():
    mask = np.zeros((12, 12), dtype=bool)
    mask[:5] = True
    surface = surface_of_mask(mask)
    assert surface.at_border
    assert surface.points[:, 0] == pytest.approx(4.5)


def test_a_full_image_has_no_contour():
    surface = surface_of_mask(np.ones((6, 6), dtype=bool))
    assert len(surface.points) == 0
    assert np.isnan(surface.signed_distances(np.zeros((2, 2)))).all()


def test_areas_add_up_to_the_circumference_and_to_the_area():
    disc = surface_of_mask(distance_from((31.3, 30.8), (64, 64), (1, 1)) <= 20)
    assert disc.areas.sum() == pytest.approx(2 * math.pi * 20, rel=0.03)
    spacing = (1.0, 1.0, 2.0)
    ball = surface_of_mask(distance_from((23, 24, 24), (48, 48, 24), spacing) <= 15, spacing)
    assert ball.areas.sum() == pytest.approx(4 * math.pi * 15**2, rel=0.05)


@pytest.mark.parametrize("softness", [0.3, 2.0])
def test_the_contour_of_probabilities_lies_between_pixels(softness):
    distance = distance_from((15.6, 16.2), (32, 32), (1, 1)) - 8.37
    foreground = 1 / (1 + np.exp(np.clip(distance / softness, -50, 50)))
    surface = surface_of_probabilities(np.stack([1 - foreground, foreground]), 1, foreground > 0.5)
    radii = np.hypot(*(surface.points - np.array([15.6, 16.2])).T)
    assert radii == pytest.approx(8.37, abs=0.02 if softness > 1 else 0.2)


def test_the_contour_of_a_class_runs_where_another_one_is_as_probable():
    columns = np.arange(20.0)
    logits = np.stack([np.full(20, -20.0), 6.25 - columns, columns - 6.25])
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=0)
    volume = np.repeat(probabilities[:, None], 20, axis=1)
    surface = surface_of_probabilities(volume, 1, volume.argmax(axis=0) == 1)
    assert surface.points[:, 1] == pytest.approx(6.25, abs=1e-6)


def test_a_spacing_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="2 positive numbers"):
        surface_of_mask(np.ones((4, 4), dtype=bool), (1.0, 1.0, 1.0))
