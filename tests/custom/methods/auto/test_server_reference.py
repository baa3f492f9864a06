"""Reviewed cases at the server: what the model says of them there, and when they are zero."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from support.corrected_runs import bias_of
from torch import nn

from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.feature_names import FEATURES
from fedannot.custom.annotation_bias.image_features import ImageStatistics
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode
from fedannot.custom.data.site_data import LoadedCase, SiteData
from fedannot.custom.methods.auto.answers import BiasReport
from fedannot.custom.methods.auto.decisions import decide
from fedannot.custom.methods.auto.server_reference import ServerReference
from fedannot.custom.methods.auto.settings import AutoSettings

UNKNOWN = (Estimate.unknown(),)
SETTINGS = AutoSettings(rounds=9, warmup_rounds=3)


def known(value: float, half: float = 0.2) -> tuple[Estimate, ...]:
    return (Estimate(12, value, value - half, value + half, slope=1.0, auroc=0.9),)


def images(mean: float = 0.0) -> ImageStatistics:
    return ImageStatistics(12, (mean,) * len(FEATURES), (1.0,) * len(FEATURES))


def answers(*offsets: float, **changes: Any) -> dict[str, BiasReport]:
    """All sites have their edges a little inside of what they draw."""
    made = BiasReport(12, 1.0, images(), (12,), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
    return {f"site-{i}": replace(made, offset=known(one), **changes) for i, one in enumerate(offsets)}


LARGER = (4.0, 4.4, 5.0, 4.2)


def server_of(offset: float, mean: float = 0.0) -> ServerReference:
    return ServerReference(known(offset), images(mean), 1.0)


def test_where_all_sites_draw_larger_the_servers_reviewed_cases_are_zero() -> None:
    result = decide(answers(*LARGER), SETTINGS, seed=0, server=server_of(-0.5))
    (reference_level,) = result.reference_levels
    assert reference_level is not None
    assert reference_level.reasons == (Evidence(EvidenceCode.REVIEWED, {"patients": 12, "at_server": 1}),)
    assert {site: bias_of(asked)[1] for site, asked in result.corrections.items()} == {
        f"site-{i}": pytest.approx(offset + 0.5) for i, offset in enumerate(LARGER)
    }


def test_they_count_before_those_of_sites_and_a_site_has_its_own_first() -> None:
    given = answers(*LARGER)
    given["site-0"] = replace(given["site-0"], reviewed_from_model=known(4.0))
    result = decide(given, SETTINGS, seed=0, server=server_of(0.0))
    assert not result.corrections["site-0"]
    assert bias_of(result.corrections["site-1"])[1] == pytest.approx(4.4)
    # Without the server's it is the site's.
    assert bias_of(decide(given, SETTINGS, seed=0).corrections["site-1"]) == {}


def test_images_of_another_kind_are_no_zero_and_that_is_said() -> None:
    result = decide(answers(*LARGER), SETTINGS, seed=0, server=server_of(0.0, mean=9.0))
    (reference_level,) = result.reference_levels
    assert reference_level is not None
    assert reference_level.kind == "median"
    assert reference_level.reasons[-1].code is EvidenceCode.REVIEWED_DIFFER
    assert not any(result.corrections.values())


def test_unknown_images_are_alike_where_the_settings_say_so() -> None:
    given = answers(*LARGER, images=ImageStatistics.unknown())
    typical = SETTINGS.model_copy(update={"unknown_images": "in_domain"})
    assert all(decide(given, typical, seed=0, server=server_of(0.0)).corrections.values())
    assert not any(decide(given, SETTINGS, seed=0, server=server_of(0.0)).corrections.values())


class Recalls(nn.Module):
    """Predicts the discs that are in the images."""

    def __init__(self) -> None:
        super().__init__()
        self.somewhere = nn.Parameter(torch.zeros(1))

    def forward(self, found: torch.Tensor) -> torch.Tensor:
        return torch.cat((-6 * found, 6 * found), dim=1)


def disc(radius: float, row: float) -> torch.Tensor:
    rows, columns = torch.meshgrid(torch.arange(48.0), torch.arange(48.0), indexing="ij")
    return ((rows - row) ** 2 + (columns - 24) ** 2).sqrt() <= radius


def reviewed(count: int) -> SiteData:
    """Discs that are annotated 2 pixels larger than the model sees them."""
    cases = []
    for index, row in enumerate(np.linspace(18, 30, count)):
        seen, given = disc(8, row), disc(10, row)
        image = seen.float()[None, None] * 2 - 1
        cases.append(LoadedCase(f"{index}", f"{index}", image, given[None].to(torch.uint8), None, None))
    return SiteData("test", tuple(cases), cast(Any, None), ())


def test_the_model_predicts_them_at_the_server() -> None:
    result = ServerReference.of(Recalls(), reviewed(6), SETTINGS, seed=0)
    assert result.offsets[0].value == pytest.approx(2.0, abs=0.3)
    assert result.offsets[0].patients == 6
    assert result.images.is_known
    assert result.pixel_size == 1.0


def test_of_two_patients_nothing_is_concluded() -> None:
    assert not ServerReference.of(Recalls(), reviewed(2), SETTINGS, seed=0).offsets[0].is_known
