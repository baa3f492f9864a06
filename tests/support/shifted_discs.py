"""A site of pictures with discs whose masks are all drawn at another place, for corrections of that shift."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

SHIFT = (2.0, -1.5)
CASES = 6


def write_shifted_site(folder: Path, shift=SHIFT, *, reviewed: int = 0) -> Path:
    """Bright discs whose masks are drawn at another place; an image more is for validation.

    Of reviewed cases the right mask is in use, and the shifted one is known as given.
    """
    generator = np.random.default_rng(7)
    for part in ("images", "labels", "right"):
        (folder / part).mkdir(parents=True)
    entries = []
    for number in range(CASES + 1):
        grid = np.indices((48, 48)) - 24 - generator.uniform(-2, 2, (2, 1, 1))
        away = np.hypot(*grid) - 9
        image = 40 + 150 / (1 + np.exp(away)) + generator.normal(scale=8, size=away.shape)
        moved = np.hypot(*(grid - np.reshape(shift, (2, 1, 1)))) - 9
        pictures = {"images": image.clip(0, 255), "labels": 200 * (moved <= 0), "right": 200 * (away <= 0)}
        for part, values in pictures.items():
            Image.fromarray(values.astype(np.uint8)).save(folder / part / f"{number}.png")
        entries.append({"image": f"images/{number}.png", "label": f"labels/{number}.png", "patient": f"p{number}"})
    for number in range(reviewed):
        entries[number] |= {"label": f"right/{number}.png", "given_label": f"labels/{number}.png"}
    sections = {"training": entries[:CASES], "validation": entries[CASES:], "reference": entries[:reviewed]}
    (folder / "datalist.json").write_text(json.dumps(sections))
    (folder / "data.yaml").write_text("channels: 1\nclasses: [lesion]\nsize: [48, 48]\nlabels: {0: 0, 200: 1}\n")
    return folder
