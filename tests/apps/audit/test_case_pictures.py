import base64
import io

import numpy as np
import pytest
from PIL import Image

from fedannot.apps.audit.case_files import CaseReader, merged
from fedannot.apps.audit.case_pictures import content_and_crop


def plane_of(runs, content):
    """Classes of a plane from its run lengths, by another way than the page's."""
    values, lengths = runs[::2], runs[1::2]
    return np.repeat(values, lengths).reshape(content["height"], content["width"])


def as_shown(array, kind):
    """Planes of samples as the page shows them."""
    planes = np.moveaxis(array[0], -1, 0) if kind == "volumes" else array
    return planes if kind == "images" else np.stack([np.rot90(plane) for plane in planes])


def decoded(address):
    head, data = address.split(",")
    assert head == "data:image/webp;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


@pytest.mark.parametrize("kind", ["images", "slices", "volumes"])
def test_masks_on_the_page_are_those_of_the_case(made_audits, kind):
    result = made_audits[kind]
    reader = CaseReader(result)
    for case in result.audit.cases:
        content, read = content_and_crop(reader, case)[0], reader.read(case)
        for layer, array in (("given", read.given), ("predicted", read.prediction)):
            shown = np.stack([plane_of(runs, content) for runs in content[layer]])
            np.testing.assert_array_equal(shown, as_shown(array, kind))
        assert len(content["images"]) == len(content["given"])


@pytest.mark.parametrize("kind", ["images", "slices", "volumes"])
def test_suggestions_on_the_page_differ_where_those_of_the_case_do(made_audits, kind):
    result = made_audits[kind]
    reader = CaseReader(result)
    case = result.audit.cases[0]
    content, read = content_and_crop(reader, case)[0], reader.read(case)
    assert case.findings
    for finding, shown in zip(case.findings, content["findings"], strict=True):
        wanted = as_shown(merged(read.given, read.suggestions, [finding.id]), kind)
        planes = [plane_of(runs, content) for runs in content["given"]]
        for number, runs in shown["suggested"].items():
            planes[int(number)] = plane_of(runs, content)
        np.testing.assert_array_equal(np.stack(planes), wanted)


@pytest.mark.parametrize("kind", ["images", "slices", "volumes"])
def test_the_box_and_the_plane_of_a_finding_are_where_its_suggestion_is(made_audits, kind):
    result = made_audits[kind]
    reader = CaseReader(result)
    case = result.audit.cases[0]
    content, read = content_and_crop(reader, case)[0], reader.read(case)
    for finding, shown in zip(case.findings, content["findings"], strict=True):
        changed = as_shown(read.suggestions[finding.id] != read.given, kind)
        assert changed[shown["plane"]].any()
        top, left, bottom, right = shown["box"]
        changed[:, top:bottom, left:right] = False
        assert not changed.any()


def test_images_on_the_page_run_from_the_darkest_to_the_brightest_hundredth(made_audits):
    result = made_audits["images"]
    reader = CaseReader(result)
    image = reader.read(result.audit.cases[0]).image[0, 0]
    low, high = np.quantile(image, [0.01, 0.99])
    wanted = np.rint(255 * np.clip((image - low) / (high - low), 0, 1))
    (address,) = content_and_crop(reader, result.audit.cases[0])[0]["images"]
    assert np.abs(decoded(address)[..., 0].astype(int) - wanted).mean() < 3


def test_a_classified_case_has_no_masks(made_audits):
    result = made_audits["classes"]
    content = content_and_crop(CaseReader(result), result.audit.cases[0])[0]
    assert content["given"] is None
    assert content["findings"] == [{"plane": 0, "box": None, "suggested": None}]


@pytest.mark.parametrize("kind", ["images", "slices", "volumes", "classes"])
def test_a_crop_is_a_small_square(made_audits, kind):
    result = made_audits[kind]
    assert decoded(content_and_crop(CaseReader(result), result.audit.cases[0])[1]).shape == (88, 88, 3)


def test_a_case_that_cannot_be_read_says_why_and_stops_nothing(audit_of):
    result = audit_of("images")
    reader = CaseReader(result)
    reader.files(result.audit.cases[0]).image.write_bytes(b"no image")
    content = content_and_crop(reader, result.audit.cases[0])[0]
    assert list(content) == ["problem"]
    assert content_and_crop(reader, result.audit.cases[0])[1] == ""
