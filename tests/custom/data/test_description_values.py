"""How images are prepared, as numbers: what they say, and that what they cannot say is not said."""

import math
from typing import Any

import pytest

from fedannot.custom.data.description import PIPELINES, AnyDescription, ImageDescription, check_site_description
from fedannot.custom.data.description_values import NUM_VALUES, OF_FILES, description_of_values, description_values
from fedannot.custom.outbound.fields import COMMON_FIELDS, PREPARATION
from fedannot.transforms.errors import DataError

NAN = math.nan
MASKS = {"classes": ["organ", "lesion"], "labels": {0: 0, 7: 1, 9: 2}, "datalist": "/data/patients/list.json"}
TWO_D = {"classes": ["benign", "malign"], "datalist": "mine.json"}
# In the order of the keys: pipeline, channels, size, fit, orientation, spacing, crop, intensity, window, slice_axis.
DESCRIBED: list[tuple[dict[str, Any], list[float]]] = [
    (
        {"pipeline": "image2d", "channels": 3, "size": [64, 48], "fit": "pad", "ignore": [255], **MASKS},
        [0, 3, 64, 48, NAN, 1, *[NAN] * 11],
    ),
    (
        {"pipeline": "classification", "channels": 1, "size": [32, 33], **TWO_D},
        [3, 1, 32, 33, NAN, 0, *[NAN] * 11],
    ),
    (
        {"pipeline": "volume", "orientation": "LPS", "spacing": [0.7, 1.0, 2.5], "crop": "foreground", **MASKS},
        [2, 1, *[NAN] * 3, 2, 1, 3, 4, 0.7, 1, 2.5, 1, 0, NAN, NAN, NAN],
    ),
    (
        {
            **{
                "pipeline": "volume_slices",
                "channels": 4,
                "slice_axis": 1,
                "size": [48, 64],
                "fit": "resize",
                "stride": 3,
            },
            **{"intensity": "window", "window": [-1000, 400.5], "annotated_classes": ["organ"]},
            **MASKS,
            "labels": {0: 0, 7: 1},
        },
        [1, 4, 48, 64, NAN, 0, 0, 2, 4, NAN, NAN, NAN, 0, 1, -1000, 400.5, 1],
    ),
]


def described(values: dict[str, Any]) -> AnyDescription:
    return check_site_description(values, source="a test")


@pytest.mark.parametrize(("values", "numbers"), DESCRIBED, ids=[values["pipeline"] for values, _ in DESCRIBED])
def test_every_pipeline_is_said_in_numbers_and_comes_back(values: dict[str, Any], numbers: list[float]) -> None:
    description = described(values)
    said = description_values(description)
    assert said == pytest.approx(numbers, nan_ok=True)
    assert said is not None
    in_json = [None if math.isnan(number) else number for number in said]
    again = description_of_values(in_json, description.classes)
    same = set(type(description).model_fields) - OF_FILES
    assert {key: getattr(again, key) for key in same} == {key: getattr(description, key) for key in same}
    # Neither a path nor a value of the site's files is among them.
    assert again.datalist == "datalist.json"
    assert getattr(again, "labels", None) in (None, {0: 0, 1: 1, 2: 2})


def test_all_pipelines_are_tried_and_the_registered_field_has_their_length() -> None:
    assert {values["pipeline"] for values, _ in DESCRIBED} == set(PIPELINES)
    (field,) = [field for field in COMMON_FIELDS if field.name == PREPARATION]
    assert field.length == NUM_VALUES == 17


def test_what_numbers_do_not_say_is_not_said_in_part() -> None:
    """A description with a key that is not among them, as of a later pipeline."""

    class Later(ImageDescription):
        colours: str = "all"

    values = {**DESCRIBED[0][0], "labels": {0: 0, 7: 1, 9: 2}}
    assert description_values(Later(**values)) is None
    # Names of channels stay at the site, as those of classes do; but they decide which file is which.
    assert description_values(ImageDescription(**values | {"channels": ["T1", "FLAIR"]})) is None
    assert description_values(ImageDescription(**values | {"channels": 2, "missing_channels": "zeros"})) is None
    other = ImageDescription(**values).model_copy(update={"pipeline": "spectra"})
    assert description_values(other) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({0: 9.0}, r"found \[9\.0\] for 'pipeline'; expected numbers from 0 to 3"),
        ({5: 0.5}, r"found \[0\.5\] for 'fit'"),
        ({2: -4.0}, "size"),
        ({9: 1.0}, "spacing"),
    ],
)
def test_numbers_of_no_description_are_refused(changes: dict[int, float], message: str) -> None:
    numbers = [changes.get(place, number) for place, number in enumerate(DESCRIBED[0][1])]
    with pytest.raises(DataError, match=message):
        description_of_values(numbers, ["organ", "lesion"])
    with pytest.raises(DataError, match="has 3 numbers; expected 17"):
        description_of_values(numbers[:3], ["organ", "lesion"])
