"""A set of four-channel volumes whose last channel lies on a grid of its own, in layouts that mean the same."""

import json

import nibabel
import numpy as np
import SimpleITK

NAMES = ("T1", "T1c", "T2", "FLAIR")
SHAPE = (12, 10, 6)
AFFINE = np.array([[-0.8, 0, 0, 6], [0, 1.1, 0, -4], [0, 0, 2.5, 3], [0, 0, 0, 1.0]])
# The FLAIR lies turned by some degrees, with other voxels, and ends before the last slice.
TURNED = np.array([[1.2, 0.1, 0, -6.5], [-0.1, 1.2, 0, -6], [0, 0, 3.0, 1.5], [0, 0, 0, 1.0]])
FLAIR_SHAPE = (14, 13, 4)
_TO_LPS = np.diag([-1.0, -1.0, 1.0])

DESCRIPTION = (
    "pipeline: volume\nclasses: [a]\nlabels: {0: 0, 1: 1}\nsize: [16, 16, 16]\nchannels: [T1, T1c, T2, FLAIR]\n"
)


def channels_of(index):
    """The voxels of the four channels of a case, as they lie in their files."""
    generator = np.random.default_rng(index)
    shapes = (SHAPE, SHAPE, SHAPE, FLAIR_SHAPE)
    return [
        generator.uniform(10 * number, 10 * number + 50, shape).astype("f4") for number, shape in enumerate(shapes, 1)
    ]


def label_of(index):
    label = np.zeros(SHAPE, "u1")
    label[3:8, 2:7, 1 + index % 2 : 4] = 1
    return label


def resampled_by_itk(voxels, affine, like=SHAPE, like_affine=AFFINE):
    """What another program makes of voxels on another grid; its smallest value lies beyond what they cover."""

    def image(array, matrix):
        result = SimpleITK.GetImageFromArray(np.ascontiguousarray(array.T))
        columns = _TO_LPS @ matrix[:3, :3]
        spacing = np.linalg.norm(columns, axis=0)
        result.SetSpacing(spacing.tolist())
        result.SetDirection((columns / spacing).ravel().tolist())
        result.SetOrigin((_TO_LPS @ matrix[:3, 3]).tolist())
        return result

    resample = SimpleITK.ResampleImageFilter()
    resample.SetReferenceImage(image(np.zeros(like, "f4"), like_affine))
    resample.SetInterpolator(SimpleITK.sitkLinear)
    resample.SetDefaultPixelValue(float(voxels.min()))
    return SimpleITK.GetArrayFromImage(resample.Execute(image(voxels.astype("f8"), affine))).T


def save(file, voxels, affine=AFFINE):
    file.parent.mkdir(parents=True, exist_ok=True)
    image = nibabel.Nifti1Image(voxels, affine)
    image.header.set_xyzt_units("mm")
    nibabel.save(image, file)
    return file.name


def write_site(folder, *, stacked=False, count=2, missing=()):
    """Write a site with a file for each channel, or with one of four axes, for which another program resamples.

    Args:
        missing: numbers of the channels that the first case lacks.
    """
    items = []
    for index in range(count):
        voxels = channels_of(index)
        save(folder / "labels" / f"case_{index}.nii.gz", label_of(index))
        if stacked:
            on_one_grid = np.stack([*voxels[:3], resampled_by_itk(voxels[3], TURNED).astype("f4")], axis=-1)
            image = f"images/{save(folder / 'images' / f'case_{index}.nii.gz', on_one_grid)}"
        else:
            affines = (AFFINE, AFFINE, AFFINE, TURNED)
            image = [
                None
                if index == 0 and number in missing
                else f"images/{save(folder / 'images' / f'case_{index}_{number:04d}.nii.gz', channel, affine)}"
                for number, (channel, affine) in enumerate(zip(voxels, affines, strict=True))
            ]
        items.append({"image": image, "label": f"labels/case_{index}.nii.gz"})
    (folder / "datalist.json").write_text(json.dumps({"training": items}))
    (folder / "data.yaml").write_text(DESCRIPTION)
    return folder
