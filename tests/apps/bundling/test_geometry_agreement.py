"""Import, check, run and bundle see a volume and its mask at the same place, whatever header and order they have.

Image and mask are made from one function of world coordinates. nibabel and SimpleITK say where files lie.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import SimpleITK
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from monai.bundle import ConfigParser
from nibabel.orientations import apply_orientation, inv_ornt_aff, io_orientation

from fedannot.apps.bundling.inference_config import inference_config
from fedannot.apps.bundling.reading_code import write_reading_code
from fedannot.apps.checking.reading import CaseReader
from fedannot.apps.importing.checked import checked_case
from fedannot.apps.importing.reading import Reading
from fedannot.apps.importing.source import SourceCase, SourceDataset
from fedannot.custom.data.datalist import Case
from fedannot.custom.data.description import VolumeDescription
from fedannot.custom.data.preparation import build_preparation, build_restoration
from fedannot.custom.evaluation.inference import Inference
from fedannot.transforms.errors import DataError
from fedannot.transforms.loading.volume_files import read_label_volume

SHAPE = (12, 11, 9)
DESCRIPTION = VolumeDescription(classes=("lesion",), labels={0: 0, 1: 1})
UNITS = {"unknown": 1.0, "mm": 1.0, "meter": 1e3, "micron": 1e-3}
# Headers that say where voxels lie, some of them against themselves; and one that nobody can believe.
PLAIN, DOUBTFUL = ("sform", "qform", "both"), ("identity sform", "template sform", "default pixdim")
BROKEN = "contradiction"


@dataclass(frozen=True)
class Stored:
    """How a volume is stored: the order of its axes, which of them run backwards, header, unit, type and scaling."""

    order: tuple[int, ...]
    backwards: tuple[bool, ...]
    header: str
    unit: str
    dtype: str
    slope: float

    @property
    def orientation(self) -> np.ndarray:
        return np.array([[axis, -1 if back else 1] for axis, back in zip(self.order, self.backwards, strict=True)])


STORED = st.builds(
    Stored,
    st.permutations(range(3)).map(tuple),
    st.tuples(*[st.booleans()] * 3),
    st.sampled_from([*PLAIN, *DOUBTFUL]),
    st.sampled_from(sorted(UNITS)),
    st.sampled_from(["u1", "i2", "f4"]),
    st.sampled_from([1.0, 0.5]),
)
# True voxels of 1 × 1 × 1 mm, which are no default.
TEMPLATE = Stored((0, 1, 2), (False,) * 3, "template sform", "mm", "i2", 1.0)
WORLDS = st.tuples(
    st.tuples(*[st.sampled_from([1.0, 1.5, 2.5])] * 3), st.sampled_from([0.0, 0.15, -0.3]), st.integers(-80, 80)
)


def world_affine(spacing: tuple[float, ...], angle: float, origin: float) -> np.ndarray:
    """A right-handed grid with its middle near the origin, turned about an axis that is none of the patient's."""
    cos, sin = np.cos(angle), np.sin(angle)
    about_z = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    about_x = np.array([[1, 0, 0], [0, cos, -sin], [0, sin, cos]])
    affine = np.eye(4)
    affine[:3, :3] = about_z @ about_x @ np.diag(spacing)
    affine[:3, 3] = origin, 2 * origin, -origin
    return affine


def lesion(affine: np.ndarray, shape: tuple[int, ...], middle: np.ndarray) -> np.ndarray:
    """Where an asymmetric lesion near a point lies on a grid ``(I, J, K)``."""
    indices = np.stack(np.meshgrid(*(np.arange(length) for length in shape), indexing="ij"), axis=-1)
    x, y, z = np.moveaxis(indices @ affine[:3, :3].T + affine[:3, 3] - middle, -1, 0)
    body = ((x - 2) / 3.1) ** 2 + ((y + 1.5) / 2.6) ** 2 + ((z - 1) / 2.3) ** 2 <= 1
    return body | ((x > 1) & (x < 5.4) & (abs(y) < 1.6) & (z > -2.7) & (z < 1.1))


def as_stored(affine: np.ndarray, how: Stored) -> tuple[np.ndarray, tuple[int, ...]]:
    """Affine and shape of the grid with its axes as stored."""
    orientation = how.orientation
    shape = tuple(np.array(SHAPE)[np.argsort(orientation[:, 0])].tolist())
    return affine @ inv_ornt_aff(orientation, SHAPE), shape


def write(file: Path, voxels: np.ndarray, affine: np.ndarray, how: Stored) -> Path:
    unit = np.diag([*[1 / UNITS[how.unit]] * 3, 1.0])
    in_unit = unit @ affine
    image = nibabel.Nifti1Image((voxels / how.slope).astype(how.dtype), in_unit)
    image.header.set_xyzt_units(how.unit)
    image.set_qform(in_unit, 0 if how.header in ("sform", "default pixdim") else 1)
    forms = {"identity sform": (np.eye(4), 1), "template sform": (np.diag([1.1, 1.2, 0.9, 1]) @ in_unit, 4)}
    forms |= {BROKEN: (np.diag([1.3, 1.3, 1.3, 1]) @ in_unit, 2), "qform": (in_unit, 0)}
    image.set_sform(*forms.get(how.header, (in_unit, 2)))
    if how.header == "default pixdim":
        image.header["pixdim"][1:4] = 1
    if how.slope != 1:
        image.header.set_slope_inter(how.slope, 0)
    nibabel.save(image, file)
    return file


class Threshold(torch.nn.Module):
    """Finds what is brighter than the middle of the range."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        above = images - (images.min() + images.max()) / 2
        return torch.cat([-above, above], dim=1)


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], tuple[Path, list[str]]]:
    """What a bundle does with a file: returns the mask's file, and what it refused."""
    bundle, out = tmp_path_factory.mktemp("bundle"), tmp_path_factory.mktemp("results")
    write_reading_code(bundle)
    (bundle / "models").mkdir()
    torch.jit.save(torch.jit.script(Threshold()), bundle / "models" / "model.ts")  # type: ignore[no-untyped-call]
    config = inference_config(DESCRIPTION, Inference(1, None))
    images = tmp_path_factory.mktemp("images")
    parser = ConfigParser(config | {"dataset_dir": str(images), "output_dir": str(out), "bundle_root": str(bundle)})
    names = ("dataset", "predict", "postprocessing")
    dataset, predict, postprocessing = (parser.get_parsed_content(name) for name in names)

    def run(file: Path) -> tuple[Path, list[str]]:
        dataset.files = [str(file)]
        for item in dataset:
            postprocessing({**item, "pred": predict([item])[0]})
        return out / file.name.replace(".nii", "_seg.nii"), dataset.refused

    return run


def by_simpleitk(file: Path) -> np.ndarray:
    image = SimpleITK.ReadImage(str(file))
    return np.array([*image.GetSpacing(), *image.GetOrigin(), *image.GetDirection()])


def imported(image: Path, mask: Path, folder: Path) -> Any:
    dataset = SourceDataset("any", "segmentation", volumes=True, cases=())
    return checked_case(SourceCase(image, mask, name="case"), dataset, folder / "staging", Reading(DESCRIPTION))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(image_how=TEMPLATE, mask_how=TEMPLATE, world=((1.0, 1.0, 1.0), 0.0, 0))
@given(image_how=STORED, mask_how=STORED, world=WORLDS)
def test_image_and_mask_lie_at_their_place_for_all_readers(
    image_how: Stored, mask_how: Stored, world: tuple[tuple[float, ...], float, int], folder: Path, segment: Any
) -> None:
    affine = world_affine(*world)
    middle = affine[:3, :3] @ (np.array(SHAPE) - 1) / 2 + affine[:3, 3]
    (image_affine, image_shape), (mask_affine, mask_shape) = as_stored(affine, image_how), as_stored(affine, mask_how)
    expected = lesion(image_affine, image_shape, middle)
    assert 5 < expected.sum() < 0.3 * expected.size
    image = write(folder / "image.nii.gz", np.where(expected, 100, 20), image_affine, image_how)
    mask = write(folder / "mask.nii.gz", lesion(mask_affine, mask_shape, middle), mask_affine, mask_how)
    spacing = np.linalg.norm(image_affine[:3, :3], axis=0)
    case = Case(image, mask)

    taken = imported(image, mask, folder)
    np.testing.assert_array_equal(read_label_volume(taken.label).voxels != 0, expected)

    facts = CaseReader(folder, DESCRIPTION)("training", case)
    assert facts.is_usable
    assert facts.image is not None
    assert facts.annotation is not None
    np.testing.assert_allclose(facts.image.spacing, spacing, rtol=1e-4)
    assert facts.annotation.areas == {1: int(expected.sum())}

    prepared = build_preparation(DESCRIPTION)(case)
    upright = apply_orientation(expected, io_orientation(image_affine))
    seen, label = prepared.tensors["image"][0, 0].numpy(), prepared.tensors["label"][0].numpy()
    np.testing.assert_array_equal(label, upright)
    np.testing.assert_array_equal(seen > (seen.min() + seen.max()) / 2, upright)
    restored = build_restoration(DESCRIPTION)(image, mask, prepared.tensors["label"])
    np.testing.assert_array_equal(restored, lesion(mask_affine, mask_shape, middle))

    written, refused = segment(image)
    assert refused == []
    result, given_image = nibabel.load(written), nibabel.load(image)
    np.testing.assert_array_equal(np.asarray(result.dataobj), expected)
    np.testing.assert_array_equal(result.affine, given_image.affine)
    np.testing.assert_array_equal(by_simpleitk(written), by_simpleitk(image))
    if image_how.header != "default pixdim":
        np.testing.assert_allclose(by_simpleitk(image)[:3], spacing, rtol=1e-4)


def test_a_header_that_nobody_can_believe_is_refused_by_all_readers(folder: Path, segment: Any) -> None:
    affine, how = world_affine((1.5, 1.5, 2.5), 0.0, 5), Stored((0, 1, 2), (False,) * 3, BROKEN, "mm", "i2", 1.0)
    image = write(folder / "image.nii.gz", np.arange(np.prod(SHAPE)).reshape(SHAPE) % 90, affine, how)
    mask = write(
        folder / "mask.nii.gz", np.ones(SHAPE), affine, Stored(how.order, how.backwards, "both", "mm", "u1", 1.0)
    )
    message = r"image\.nii\.gz: found voxels of 1\.95 × 1\.95 × 3\.25 by the sform and 1\.5 × 1\.5 × 2\.5 by pixdim"
    with pytest.raises(DataError, match=message):
        imported(image, mask, folder)
    with pytest.raises(DataError, match=message):
        build_preparation(DESCRIPTION)(Case(image, mask))
    facts = CaseReader(folder, DESCRIPTION)("training", Case(image, mask))
    assert [problem.kind for problem in facts.problems] == ["unreadable-image"]
    assert "by the sform" in facts.problems[0].found
    _, refused = segment(image)
    assert len(refused) == 1
    assert "by the sform" in refused[0]


@pytest.mark.parametrize(
    ("header", "unit", "remark"),
    [
        (
            "identity sform",
            "mm",
            r"found voxels of 1 × 1 × 1 by the sform and 1\.5 × 1\.5 × 8 by pixdim.* taken: qform",
        ),
        ("both", "meter", r"found lengths in metres; converted to voxels of 1\.5 × 1\.5 × 8 mm"),
        ("both", "micron", r"found lengths in microns; converted to voxels of 1\.5 × 1\.5 × 8 mm"),
    ],
    ids=["identity sform", "metres", "microns"],
)
def test_what_is_taken_is_said_by_all_readers(
    header: str, unit: str, remark: str, tmp_path: Path, segment: Any, caplog: pytest.LogCaptureFixture
) -> None:
    affine, how = world_affine((1.5, 1.5, 8.0), 0.0, 5), Stored((0, 1, 2), (True, True, False), header, unit, "i2", 1.0)
    stored, shape = as_stored(affine, how)
    image = write(tmp_path / "image.nii.gz", np.arange(np.prod(shape)).reshape(shape) % 90, stored, how)
    mask = write(tmp_path / "mask.nii.gz", np.eye(12, 11)[..., None] * np.ones(9), stored, how)
    (said, *_) = imported(image, mask, tmp_path).remarks
    assert re.search(remark, said)
    first, *_ = CaseReader(tmp_path, DESCRIPTION)("training", Case(image, mask)).problems
    assert (first.kind, first.severity) == ("header-geometry", "warning" if header == "identity sform" else "note")
    assert re.search(remark, first.found)
    build_preparation(DESCRIPTION)(Case(image, mask))
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert re.search(f"image.*{remark}", caplog.text)
    caplog.clear()
    segment(image)
    assert re.search(f"image.*{remark}", caplog.text)
