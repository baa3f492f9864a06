"""A site undoes what was established of its channel: contours move back, what is probably missing is ignored."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ....transforms.connected_lesions import label_lesions
from ....transforms.ignore_unannotated import IgnoreUnannotated
from ....transforms.ignored_label import IGNORED_LABEL
from ...channel.detections import unannotated_sureness
from ...channel.judging import judged_samples
from ...data.site_data import SiteData
from ...data.undone import Undone, UndoneCase
from ...data.undone_labels import case_files
from ...evaluation.inference import Inference
from ...networks.hashing import model_hash

# A model that has seen few lesions finds their middle; what is around it is as little background as that.
_MARGIN = 2

Floats = NDArray[np.float64]


def undo_channel(
    network: nn.Module,
    data: SiteData,
    *,
    offsets: Mapping[int, float],
    missing: Mapping[int, float],
    data_folder: Path,
    method: str,
    round_number: int,
    inference: Inference,
    reverted: Collection[str] = (),
) -> tuple[Undone, dict[str, NDArray[np.bool_]]]:
    """Decide what is undone in which annotation, and return the record and the pixels that are ignored.

    Of a class of which the share m is missing, the surest objects that the model sees and nobody has annotated are
    ignored: m / (1 − m) times as many as are annotated.

    Args:
        network: the received model.
        data: the site's training cases with their given annotations.
        offsets: by class, by how far contours lie too far outside.
        missing: by class, share of the objects that is left out.
        data_folder: the folder of the site's data, to which recorded paths are relative.
        method: the method whose decision it is, for the record.
        round_number: the round before whose training it happens, likewise.
        inference: how the model is run.
        reverted: given annotations that somebody at the site has let count as they are.
    """
    ignored, counts = _ignored(network, data, missing, inference) if missing else ({}, {})
    cases = []
    for position, case in enumerate(data.cases):
        label, image = case_files(case, data_folder)
        count, is_reverted = counts.get(position, 0), label in reverted
        cases.append(UndoneCase(label=label, image=image, ignored_objects=count, reverted=is_reverted))
    undone = Undone(
        site=data.site,
        data=str(data_folder.resolve()),
        method=method,
        round_number=round_number,
        model_sha256=model_hash(network.state_dict()),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        offsets={str(label): offset for label, offset in offsets.items()},
        missing={str(label): share for label, share in missing.items()},
        cases=tuple(cases),
    )
    return undone, {cases[position].label: pixels for position, pixels in ignored.items()}


def _ignored(
    network: nn.Module, data: SiteData, missing: Mapping[int, float], inference: Inference
) -> tuple[dict[int, NDArray[np.bool_]], dict[int, int]]:
    """By position of the case the pixels that are ignored ``(S, H, W[, D])``, and the objects; others are left out."""
    sureness: dict[int, list[Floats]] = {label: [] for label in missing}
    annotated = dict.fromkeys(missing, 0)
    for judged in judged_samples(network, data.cases, inference):
        for label in missing:
            sureness[label].append(unannotated_sureness(judged, label))
            annotated[label] += label_lesions(judged.annotated_as(label))[1]
    samples = [given.numpy() for case in data.cases for given in case.label]
    pixels = [np.zeros(given.shape, dtype=np.bool_) for given in samples]
    objects = [0] * len(samples)
    for label, share in missing.items():
        wanted = round(annotated[label] * share / (1 - share)) if share < 1 else len(samples) ** 2
        chosen = _surest(sureness[label], wanted)
        for index, least in chosen.items():
            ignore = IgnoreUnannotated(most=len(least), sureness=min(least), margin=_MARGIN)
            marked = np.asarray(ignore(samples[index], sureness[label][index]))
            pixels[index] |= (marked == IGNORED_LABEL) & (samples[index] == 0)
            objects[index] += len(least)
    found, counts, start = {}, {}, 0
    for position, case in enumerate(data.cases):
        part = slice(start, start + len(case.label))
        start = part.stop
        if sum(objects[part]):
            found[position], counts[position] = np.stack(pixels[part]), sum(objects[part])
    return found, counts


def _surest(maps: Sequence[Floats], wanted: int) -> dict[int, list[float]]:
    """How sure each of the surest objects of all samples is, by the index of the sample."""
    found: list[tuple[float, int]] = []
    for index, sureness in enumerate(maps):
        labelled, count = label_lesions(sureness > 0)
        found += [(float(sureness[labelled == number].max()), index) for number in range(1, count + 1)]
    found.sort(key=lambda one: (-one[0], one[1]))
    chosen: dict[int, list[float]] = {}
    for value, index in found[:wanted]:
        chosen.setdefault(index, []).append(value)
    return chosen
