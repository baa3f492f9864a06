"""A site undoes what was established of its channel: contours move back, other classes are given, objects ignored."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from torch import nn

from ....transforms.array_types import Booleans, Classes
from ...channel.judging import judged_samples
from ...data.relabelled_objects import OtherClasses, relabelled_objects
from ...data.site_data import LoadedCase, SiteData
from ...data.undone import Undone, UndoneCase
from ...data.undone_labels import case_files
from ...data.undone_pixels import CasePixels
from ...evaluation.inference import Inference
from ...networks.hashing import model_hash
from .ignoring import UnannotatedObjects
from .relabelling import SwappedObjects


def undo_channel(
    network: nn.Module,
    data: SiteData,
    *,
    offsets: Mapping[int, float],
    missing: Mapping[int, float],
    unannotated: Mapping[int, float],
    swapped: float,
    overshoot: Mapping[int, float],
    data_folder: Path,
    method: str,
    round_number: int,
    inference: Inference,
    reverted: Collection[str] = (),
) -> tuple[Undone, dict[str, CasePixels]]:
    """Decide what is undone in which annotation; return the record, and by annotation the pixels that count otherwise.

    Which objects are ignored and which get another class are chosen by :class:`UnannotatedObjects` and
    :class:`SwappedObjects`.

    Args:
        network: the received model.
        data: the site's training cases with their given annotations.
        offsets: by class, by how far contours lie too far outside.
        missing: by class, share of the objects that is left out; the loss asks for the rest.
        unannotated: by class, share of the objects that is not annotated, of which the surest are ignored.
        swapped: share of the objects, of all classes, that are annotated as another class.
        overshoot: by class, how far the model itself draws outside zero; contours move by that, too, in training.
        data_folder: the folder of the site's data, to which recorded paths are relative.
        method: the method whose decision it is, for the record.
        round_number: the round before whose training it happens, likewise.
        inference: how the model is run.
        reverted: given annotations that somebody at the site has let count as they are.
    """
    looks = bool(unannotated) or swapped > 0
    ignored, relabelled = _chosen(network, data, unannotated, swapped, inference) if looks else ([], [])
    cases, pixels, start = [], {}, 0
    for case in data.cases:
        label, image = case_files(case, data_folder)
        part = slice(start, start + len(case.label))
        start = part.stop
        cases.append(
            UndoneCase(
                label=label,
                image=image,
                ignored_objects=sum(count for _, count in ignored[part]),
                relabelled_objects=sum(count for _, count in relabelled[part]),
                reverted=label in reverted,
            )
        )
        of_case = CasePixels(_ignored(ignored[part]), _other_classes(relabelled[part]))
        if of_case:
            pixels[label] = of_case
    undone = Undone(
        site=data.site,
        data=str(data_folder.resolve()),
        method=method,
        round_number=round_number,
        model_sha256=model_hash(network.state_dict()),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        offsets={str(label): offset for label, offset in offsets.items()},
        missing={str(label): share for label, share in missing.items()},
        swapped=swapped,
        overshoot={str(label): distance for label, distance in overshoot.items()},
        cases=tuple(cases),
    )
    return undone, pixels


def _chosen(
    network: nn.Module, data: SiteData, unannotated: Mapping[int, float], swapped: float, inference: Inference
) -> tuple[list[tuple[Booleans, int]], list[tuple[OtherClasses, int]]]:
    """Of every sample what is ignored, and what gets another class, with the numbers of objects."""
    of_none, of_other_class, samples = UnannotatedObjects(unannotated), SwappedObjects(swapped), _samples(data.cases)
    if swapped > 0:
        for judged in judged_samples(network, data.cases, inference):
            of_other_class.see(judged)
    relabelled = of_other_class.relabelled(samples)
    if unannotated:
        # How many are ignored hangs on how many are annotated, by the classes that count.
        of_samples = zip(judged_samples(network, data.cases, inference), relabelled, strict=True)
        for judged, (other, _) in of_samples:
            of_none.see(judged.with_annotation(relabelled_objects(judged.annotation, other)[0]))
    return of_none.ignored(samples), relabelled


def _samples(cases: Sequence[LoadedCase]) -> list[Classes]:
    return [given.numpy() for case in cases for given in case.label]


def _ignored(samples: Sequence[tuple[Booleans, int]]) -> Booleans | None:
    """The pixels of a case ``(S, H, W[, D])``, None where no object is ignored."""
    return np.stack([pixels for pixels, _ in samples]) if any(count for _, count in samples) else None


def _other_classes(samples: Sequence[tuple[OtherClasses, int]]) -> OtherClasses | None:
    """Likewise, None where no object gets another class."""
    if not any(count for _, count in samples):
        return None
    return OtherClasses(*(np.stack(pixels) for pixels in zip(*(other for other, _ in samples), strict=True)))
