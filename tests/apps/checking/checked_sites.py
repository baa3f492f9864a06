"""Small sites on disk for tests of the check: pictures, volumes, classified pictures."""

import json

import nibabel
import numpy as np
from PIL import Image

PICTURES = "pipeline: image2d\nchannels: 1\nsize: [16, 32]\nlabels: {0: 0, 255: 1}\nclasses: [lesion]\n"
CLASSIFIED = "pipeline: classification\nchannels: 1\nsize: [16, 16]\nclasses: [normal, benign, malignant]\n"
VOLUMES = "pipeline: volume\nlabels: {0: 0, 1: 1, 2: 2}\nclasses: [anterior, posterior]\n"


def pixels(index, shape=(16, 16)):
    """Noise of equal brightness, another for every index."""
    return np.random.default_rng(index).integers(80, 120, shape).astype(np.uint8)


def square(shape=(16, 16), value=255):
    """A mask with a square, or a cube, of side 4."""
    mask = np.zeros(shape, np.uint8)
    mask[tuple(slice(4, 8) for _ in shape)] = value
    return mask


def write_site(folder, description, lists):
    """Write `data.yaml` and `datalist.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.yaml").write_text(description)
    (folder / "datalist.json").write_text(json.dumps(lists))
    return folder


def picture(folder, name, image, mask):
    """Write an image and its mask and return the item of the datalist."""
    for kind, array in (("images", image), ("labels", mask)):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        Image.fromarray(array).save(folder / kind / f"{name}.png")
    return {"image": f"images/{name}.png", "label": f"labels/{name}.png"}


def classified(folder, name, image, label):
    """Write an image and return the item of the datalist."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(folder / "images" / f"{name}.png")
    return {"image": f"images/{name}.png", "label": label}


def volume(folder, name, image, mask, affine=None):
    """Write a volume and its mask and return the item of the datalist."""
    affine = np.eye(4) if affine is None else affine
    for kind, array in (("images", image), ("labels", mask)):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        nibabel.save(nibabel.Nifti1Image(array, affine), folder / kind / f"{name}.nii.gz")
    return {"image": f"images/{name}.nii.gz", "label": f"labels/{name}.nii.gz"}


def picture_site(folder, count=3, *, first=0, description=PICTURES):
    """A site of pictures without any fault; returns the items of its training list."""
    items = [picture(folder, f"case_{index}", pixels(index), square()) for index in range(first, first + count)]
    write_site(folder, description, {"training": items})
    return items


def federation(folder, sites, task="segmentation"):
    """Write `federation.yaml`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "federation.yaml").write_text(f"name: trial\ntask: {task}\nsites: [{', '.join(sites)}]\n")
    return folder


def summary(report):
    """Severity, kind and files of every finding."""
    return [(finding.severity.value, finding.kind, finding.files) for finding in report.findings]


def only(report, kind):
    """The one finding of a kind."""
    (finding,) = (finding for finding in report.findings if finding.kind == kind)
    return finding
