"""The table of drawings: one for every task that settings know, made of the settings' own keys."""

from typing import get_args

import pytest

from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.chambers import Chambers
from fedannot.custom.data.phantoms.choice import DRAWINGS, embedded_description, embedded_drawing
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.settings import EmbeddedSettings


def test_every_task_of_the_settings_has_a_drawing():
    assert set(DRAWINGS) == set(get_args(EmbeddedSettings.model_fields["task"].annotation))
    assert {task: drawing.task for task, drawing in DRAWINGS.items()} == {task: task for task in DRAWINGS}


@pytest.mark.parametrize(
    ("settings", "drawing"),
    [
        (
            {"noise": "M(25,-25,10,0.2)", "exact": True, "stratified": 0.5},
            LesionImages("M(25,-25,10,0.2)", exact=True, stratified=0.5),
        ),
        ({"task": "lesions3d", "sites": 2, "completeness": [0.5, 1]}, LesionVolumes((0.5, 1.0))),
        ({"task": "chambers3d", "protocols": "0-C"}, Chambers("0-C")),
        ({"task": "cells2d", "label_noise": "S40"}, Cells("S40")),
    ],
)
def test_settings_say_what_is_wrong_with_the_labels(settings, drawing):
    embedded = EmbeddedSettings.model_validate(settings)
    assert embedded_drawing(embedded) == drawing
    assert embedded_description(embedded) is drawing.description
