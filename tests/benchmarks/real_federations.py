"""Federations of real images for the comparisons; they need the environment variable FEDANNOT_REAL_DATA."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from PIL import Image

from fedannot.apps.importing.datalists import read_source_datalist
from fedannot.apps.importing.folders import read_folders
from fedannot.apps.importing.options import ImportOptions
from fedannot.apps.importing.plan import SiteChoice
from fedannot.apps.importing.writing import write_imported_federation
from fedannot.custom.seeding import derive_seed

CELL_SOURCES = ("bubil_d1", "bubil_d2", "bubil_d3", "bubil_d4", "bubil_d5")
NUM_CROWD_SETS = 7
LARGEST_BLOOD_SOURCE = "barcelona_pbc"
NUM_TEST_VOLUMES = 10


def real_data() -> Path:
    """Return the folder of the packs of real images."""
    if "FEDANNOT_REAL_DATA" not in os.environ:
        raise SystemExit("The rows with real images need the environment variable FEDANNOT_REAL_DATA.")
    return Path(os.environ["FEDANNOT_REAL_DATA"])


def write_breast_lesions(folder: Path, seed: int) -> None:
    """98 breast ultrasound images with a lesion at 64 × 64: a fifth for the test, six sites, drawn for each seed."""
    pack = real_data() / "busi-breast-us" / "seg"
    dataset = read_folders(pack / "images", pack / "labels", include=["benign_*", "malignant_*"])
    write_imported_federation([dataset], folder, SiteChoice(6), ImportOptions(keys={"size": (64, 64)}), seed=seed)


def write_hippocampi(
    folder: Path,
    seed: int,
    *,
    options: ImportOptions,
    num_sites: int = 10,
    volumes_per_site: int = 3,
    validation_share: float = 0.0,
) -> None:
    """Hippocampus MRI: sites of a few volumes each and ten volumes for the test, drawn for each seed."""
    dataset = read_source_datalist(real_data() / "hippocampus-msd" / "datalist.json")
    count = num_sites * volumes_per_site + NUM_TEST_VOLUMES
    chosen = np.random.default_rng(derive_seed(seed, "volumes")).choice(len(dataset.cases), count, replace=False)
    subset = replace(dataset, cases=tuple(dataset.cases[index] for index in sorted(chosen)))
    share = NUM_TEST_VOLUMES / count
    write_imported_federation(
        [subset],
        folder,
        SiteChoice(num_sites),
        options,
        test_share=share,
        validation_share=validation_share,
        seed=seed,
    )


def write_blood_cells(folder: Path, seed: int, *, by_source: bool = False) -> None:
    """Blood cells in eight classes at 32 × 32 in colour, drawn for each seed: a fifth of every source for the test.

    Either 2000 cells of Barcelona in four sites of equal size, or 800 of them and all those of the other three sources,
    which have five of the classes, with a site per source.
    """
    dataset = read_source_datalist(real_data() / "bloodcells-multicentre" / "datalist.json")
    largest = [case for case in dataset.cases if case.source == LARGEST_BLOOD_SOURCE]
    generator = np.random.default_rng(derive_seed(seed, "cells"))
    chosen = generator.choice(len(largest), 800 if by_source else 2000, replace=False)
    others = [case for case in dataset.cases if case.source != LARGEST_BLOOD_SOURCE] if by_source else []
    subset = replace(dataset, cases=(*(largest[index] for index in sorted(chosen)), *others))
    # The figures in docs are of a split that does not look at classes.
    sites = replace(SiteChoice.parse("by-source" if by_source else "4"), by_content=False)
    write_imported_federation([subset], folder, sites, ImportOptions(keys={"size": (32, 32), "channels": 3}), seed=seed)


def write_majority_cells(folder: Path, seed: int) -> None:
    """Cells of five sources, a site each, with the experts' majority as masks; a fifth of every source for the test."""
    dataset = read_source_datalist(real_data() / "bubil-cells" / "datalist.json")
    dataset = replace(dataset, cases=tuple(case for case in dataset.cases if case.source in CELL_SOURCES))
    options = ImportOptions(keys={"size": (64, 64), "channels": 1})
    write_imported_federation([dataset], folder, SiteChoice.parse("by-source"), options, seed=seed)


def write_cells(folder: Path, seed: int) -> None:
    """The same cells; a site has the masks of one crowd set, drawn for each seed, the majority's as clean labels."""
    with tempfile.TemporaryDirectory() as temporary:
        clean = Path(temporary) / "clean"
        write_majority_cells(clean, seed)
        _use_crowd_masks(clean, seed)
        shutil.move(clean, folder)


def add_reference(federation: Path, num_cases: int) -> None:
    """Let the first training cases of every site be reviewed: their clean labels become its list `reference`."""
    for file in sorted(federation.glob("*/datalist.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        known = [case for case in content.get("training", []) if "clean_label" in case][:num_cases]
        content["reference"] = [{"image": case["image"], "label": case["clean_label"]} for case in known]
        file.write_text(json.dumps(content))


def confuse_classes(federation: Path, share: float, seed: int) -> None:
    """Give every second site right contours, with two classes taken for each other in a fraction of its cases.

    The federation has volumes with contour noise, which the other sites keep.
    """
    generator = np.random.default_rng(derive_seed(seed, "confused classes"))
    for file in sorted(federation.glob("site-*/datalist.json"))[1::2]:
        for case in json.loads(file.read_text(encoding="utf-8"))["training"]:
            right = nibabel.load(file.parent / case["clean_label"])
            classes = np.asarray(right.dataobj).astype(np.uint8)
            if generator.random() < share:
                classes = np.array([0, 2, 1], dtype=np.uint8)[classes]
            nibabel.save(nibabel.Nifti1Image(classes, right.affine), file.parent / case["label"])


def exchange_codes(federation: Path, num_sites: int, seed: int) -> None:
    """Exchange the codes of two classes in all cases of some sites, as a wrong list of labels does.

    What the sites had before stays their clean labels, unless they have some.
    """
    generator = np.random.default_rng(derive_seed(seed, "exchanged codes"))
    files = sorted(federation.glob("site-*/datalist.json"))
    for index in sorted(generator.choice(len(files), num_sites, replace=False)):
        file = files[index]
        content = json.loads(file.read_text(encoding="utf-8"))
        for case in content["training"]:
            given = nibabel.load(file.parent / case["label"])
            case.setdefault("clean_label", case["label"])
            case["label"] = str(Path("exchanged") / Path(case["label"]).name)
            target = file.parent / case["label"]
            target.parent.mkdir(exist_ok=True)
            classes = np.array([0, 2, 1], dtype=np.uint8)[np.asarray(given.dataobj).astype(np.uint8)]
            nibabel.save(nibabel.Nifti1Image(classes, given.affine), target)
        file.write_text(json.dumps(content), encoding="utf-8")


def _use_crowd_masks(federation: Path, seed: int) -> None:
    """Give every site the masks of one crowd set as labels and keep the majority's as the clean labels."""
    annotators = _annotator_files(real_data() / "bubil-cells")
    sites = sorted(folder for folder in federation.iterdir() if folder.is_dir() and folder.name != "test")
    crowd_sets = np.random.default_rng(derive_seed(seed, "crowd sets")).permutation(NUM_CROWD_SETS) + 1
    for site, crowd in zip(sites, crowd_sets, strict=False):
        (site / "labels").rename(site / "clean_labels")
        (site / "labels").mkdir()
        content = json.loads((site / "datalist.json").read_text(encoding="utf-8"))
        for item in content["training"]:
            name = Path(item["image"]).stem
            mask = _mask_of(annotators[name], f"crowd:{crowd}")
            Image.fromarray(mask * 255).save(site / "labels" / f"{name}.png")
            item["clean_label"] = item["label"].replace("labels/", "clean_labels/")
            item["label"] = f"labels/{name}.png"
        (site / "datalist.json").write_text(json.dumps(content))


def _annotator_files(pack: Path) -> dict[str, Path]:
    items: Sequence[Mapping[str, Any]] = json.loads((pack / "datalist.json").read_text(encoding="utf-8"))["items"]
    return {Path(item["image"]).stem: pack / item["annotators"] for item in items}


def _mask_of(file: Path, annotator: str) -> np.ndarray:
    with np.load(file) as content:
        return content["masks"][list(content["names"]).index(annotator)].astype(np.uint8)


def hippocampus_dataset_options(*, sliced: bool, together: bool) -> ImportOptions:
    """How hippocampi are described: slices or whole volumes at 1.5 mm; the two parts as one class or two.

    Slices are 48 × 64, with two classes 32 × 48, where each class makes up more of the image.
    """
    size = (48, 64) if together else (32, 48)
    return ImportOptions(
        pipeline="volume_slices" if sliced else "volume",
        keys={"size": size} if sliced else {"spacing": (1.5, 1.5, 1.5)},
        labels={1: 1, 2: 1} if together else {1: 1, 2: 2},
        classes=("hippocampus",) if together else ("anterior", "posterior"),
    )
