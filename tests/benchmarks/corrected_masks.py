"""Federations whose masks have been corrected by their images alone: what another method makes of such masks."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmark_tables.rows import MakeData

from fedannot.custom.annotation_bias.profile.estimation import estimate_from_images
from fedannot.custom.annotation_bias.profile.scales import profile_cases
from fedannot.custom.corrections.in_files import segmentation_description
from fedannot.custom.corrections.kinds import BoundaryShift, of_kind
from fedannot.custom.data.description import ImageDescription
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.masks import read_classes, write_changed
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.methods.auto.image_decisions import decide_by_images
from fedannot.custom.methods.auto.settings import BiasSettings
from fedannot.transforms.loading.fitting import scaled_extents
from fedannot.transforms.move_contour import MoveContour


def corrected_by_images(make: MakeData) -> MakeData:
    """The same pictures with one class, where every site's training masks are as `auto` has them in round 1."""

    def make_corrected(folder: Path, seed: int) -> None:
        make(folder, seed)
        for site, bias in _biases(folder, seed).items():
            content = json.loads((folder / site / "datalist.json").read_text(encoding="utf-8"))
            for item in content["training"]:
                _move(folder / site / item["label"], folder / site, site, -bias)

    return make_corrected


def _biases(folder: Path, seed: int) -> dict[str, float]:
    """The bias of each site that is corrected, in pixels of the network's images."""
    with TemporaryDirectory() as store:
        cases = {
            site: list(profile_cases(load_site_data(folder / site, Path(store), site=site).cases))
            for site in read_federation(folder).sites
        }
    decided = decide_by_images([estimate_from_images(cases, 1, seed=seed)], BiasSettings())
    shifts = {site: of_kind(corrections, BoundaryShift) for site, corrections in decided.corrections.items()}
    return {site: shift.bias[1] for site, shift in shifts.items() if shift is not None}


def _move(file: Path, data: Path, site: str, distance: float) -> None:
    description = segmentation_description(data, site)
    assert isinstance(description, ImageDescription)
    given = read_classes(file, description).classes
    scaled = scaled_extents(given.shape, description.size, description.fit)
    spacing = tuple(wanted / found for wanted, found in zip(scaled, given.shape, strict=True))
    write_changed(file.with_suffix(""), file, MoveContour({1: distance})(given, spacing), description)
