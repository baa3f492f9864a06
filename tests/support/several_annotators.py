"""A site whose cases have several annotations, made of random masks."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

DESCRIPTION = "pipeline: image2d\nchannels: 1\nsize: [16, 16]\nclasses: [{classes}]\nlabels: {{{labels}}}\n"


def random_masks(
    seed: int, annotators: int = 3, *, shape: tuple[int, ...] = (16, 16), num_classes: int = 1
) -> np.ndarray:
    """Masks ``(R, …)`` of annotators who err in a tenth of the pixels of one object of each class."""
    generator = np.random.default_rng(seed)
    true = np.zeros(shape, np.uint8)
    for label in range(1, num_classes + 1):
        true[..., 2 + 4 * (label - 1) : 6 + 4 * (label - 1), 3:12] = label
    masks = np.stack([true] * annotators)
    wrong = generator.random(masks.shape) < 0.1
    masks[wrong] = generator.integers(0, num_classes + 1, int(wrong.sum()))
    return masks


def write_site(
    folder: Path, annotators: tuple[str, ...] = ("A", "B", "C"), *, cases: int = 4, num_classes: int = 1
) -> list[np.ndarray]:
    """Write a site of pictures, the first three for training, and return the masks of each case."""
    names = [f"class {label}" for label in range(1, num_classes + 1)]
    labels = ", ".join(f"{label}: {label}" for label in range(num_classes + 1))
    folder.mkdir(parents=True)
    (folder / "data.yaml").write_text(DESCRIPTION.format(classes=", ".join(names), labels=labels))
    items, masks = [], []
    for number in range(cases):
        image = np.random.default_rng(number).integers(0, 255, (16, 16), dtype=np.uint8)
        Image.fromarray(image).save(folder / f"{number}.png")
        masks.append(random_masks(number, len(annotators), num_classes=num_classes))
        own = []
        for annotator, mask in zip(annotators, masks[-1], strict=True):
            (folder / annotator).mkdir(exist_ok=True)
            Image.fromarray(mask).save(folder / annotator / f"{number}.png")
            own.append({"file": f"{annotator}/{number}.png", "annotator": annotator})
        items.append({"image": f"{number}.png", "labels": own})
    lists = {"training": items[:-1], "validation": items[-1:]}
    (folder / "datalist.json").write_text(json.dumps(lists))
    return masks
