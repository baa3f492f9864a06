"""A site corrects its masks: confident predictions take the place of background and of a class (ADELE)."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ....transforms.array_types import Classes
from ....transforms.ignored_label import IGNORED_LABEL
from ....transforms.printable import printable_logger
from ...corrections.kinds import PixelsReplaced
from ...corrections.model import CaseCorrection, Corrections, CorrectionState, Provenance
from ...corrections.pixels import BACKGROUND, FOREGROUND, CasePixels, replaced_pixels
from ...corrections.store import StoredCorrections
from ...corrections.targets import case_files
from ...data.site_data import LoadedCase, SiteData
from ...evaluation.inference import Inference
from ...networks.hashing import model_hash
from .settings import AdeleSettings

_LOGGER = printable_logger(__name__)


def confident_classes(foreground: float, background: float | None) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return what gives the most probable class where its probability is above a threshold, else 255.

    Args:
        foreground: τ of the classes.
        background: τ of the background; None for never.

    Returns:
        A function of logits ``(B, C + 1, H, W[, D])`` that returns ``(B, H, W[, D])``.
    """

    def decide(logits: torch.Tensor) -> torch.Tensor:
        probability, label = logits.float().softmax(dim=1).max(dim=1)
        is_background = label == 0
        confident = ~is_background & (probability > foreground)
        if background is not None:
            confident |= is_background & (probability > background)
        return torch.where(confident, label, IGNORED_LABEL)

    return decide


def decided_pixels(annotations: Sequence[Classes], predicted: Classes, label: int) -> Classes:
    """Return where a confident prediction changes any annotation of a case between background and a class.

    Args:
        annotations: of the case, ``(S, H, W[, D])`` each.
        predicted: as of :func:`confident_classes`, of their shape.
        label: the class c.

    Returns:
        2 for pixels that become the class, 1 for background, 0 elsewhere; of their shape.
    """
    decided = np.where(predicted == label, np.uint8(FOREGROUND), np.uint8(0))
    decided[predicted == 0] = BACKGROUND
    changes = np.zeros(predicted.shape, dtype=bool)
    for given in annotations:
        changes |= replaced_pixels(given, [label], decided[None]) != given
    decided[~changes] = 0
    return decided


def correct_pixels(
    network: nn.Module,
    data: SiteData,
    labels: Sequence[int],
    before: StoredCorrections | None,
    *,
    settings: AdeleSettings,
    data_folder: Path,
    round_number: int,
    reviewed: Collection[str],
) -> tuple[Corrections, dict[str, CasePixels]]:
    """Return the corrections of a site with further classes, and by given annotation the pixels that are replaced.

    Earlier decisions go on counting, also of cases that the data manager has reverted. What a review kept or changed is
    not replaced. Nothing of it leaves the site.

    Args:
        network: the received model.
        data: the site's training cases with their given annotations.
        labels: the classes that are corrected now.
        before: what is corrected already; None for nothing.
        settings: the job's.
        data_folder: the folder of the site's data.
        round_number: the round before whose training it happens.
        reviewed: names of the annotations that a review kept or changed.

    Raises:
        DataError: if earlier decisions cannot be read.
    """
    of_before = None if before is None else before.corrections.of(PixelsReplaced)
    background = settings.background_threshold if settings.direction == "both" else None
    kind = PixelsReplaced(
        rounds=(of_before.rounds if of_before is not None else {}) | dict.fromkeys(labels, round_number),
        foreground_threshold=settings.correction_threshold,
        background_threshold=background,
    )
    known = {} if before is None else before.pixels(len(data.classes))
    reverted = frozenset() if before is None else before.corrections.reverted
    decide = confident_classes(settings.correction_threshold, background)
    cases: list[CaseCorrection] = []
    pixels: dict[str, CasePixels] = {}
    for case, predicted in zip(
        data.cases, Inference.of(settings).predictions(network, data.cases, decide), strict=True
    ):
        name, image = case_files(case, data_folder)
        if name not in reviewed:
            earlier = _earlier(known.get(name), case, len(kind.labels) - len(labels))
            decided = _decided(case, predicted.numpy(), earlier, kind.labels)
            if decided.any():
                pixels[name] = CasePixels(replaced=decided)
        state = CorrectionState.REVERTED if name in reverted else CorrectionState.ACTIVE
        cases.append(CaseCorrection(image=image, label=case.label_name(data_folder), state=state))
    return (
        Corrections(
            site=data.site,
            data=str(data_folder.resolve()),
            provenance=Provenance.now(settings.method, round_number, model_hash(network.state_dict())),
            corrections=(kind,),
            cases=tuple(cases),
            consensus="" if data.consensus is None else str(data.consensus),
        ),
        pixels,
    )


def with_replaced_pixels(
    data: SiteData, stored: StoredCorrections | None, data_folder: Path, reviewed: Collection[str] = ()
) -> SiteData:
    """Return the cases with the pixels replaced that count, in their label and in every annotation of several.

    Args:
        data: the site's training cases with their given annotations.
        stored: the corrections that count; None for none.
        data_folder: the folder of the site's data.
        reviewed: names of the annotations that a review kept or changed, perhaps since; nothing of them is replaced.

    Raises:
        DataError: if decisions cannot be read.
    """
    kind = None if stored is None else stored.corrections.of(PixelsReplaced)
    if stored is None or kind is None:
        return data
    pixels, reverted = stored.pixels(len(data.classes)), stored.corrections.reverted
    cases = []
    for case in data.cases:
        name, _ = case_files(case, data_folder)
        decided = pixels.get(name, CasePixels())
        if decided.replaced is None or name in reverted or name in reviewed:
            cases.append(case)
        elif decided.fits(case):
            cases.append(_corrected(case, kind.labels, decided.replaced))
        else:
            _LOGGER.warning("Site %s: %s has another size than when pixels were replaced; none is.", data.site, name)
            cases.append(case)
    return replace(data, cases=tuple(cases))


def _corrected(case: LoadedCase, labels: Sequence[int], decided: Classes) -> LoadedCase:
    label = torch.from_numpy(replaced_pixels(case.label.numpy(), labels, decided))
    if case.annotations is None:
        return replace(case, label=label)
    # Of each annotator (S, …), annotators second.
    own = [torch.from_numpy(replaced_pixels(given, labels, decided)) for given in _annotations(case)]
    return replace(case, label=label, annotations=torch.stack(own, dim=1))


def _annotations(case: LoadedCase) -> list[Classes]:
    """The annotations of several annotators, ``(S, H, W[, D])`` each; none of a single one."""
    return [] if case.annotations is None else [given.numpy() for given in case.annotations.unbind(dim=1)]


def _earlier(pixels: CasePixels | None, case: LoadedCase, num_labels: int) -> Classes:
    """What was decided on a case for the classes before, ``(K, S, H, W[, D])``; nothing of one of another size."""
    if pixels is None or pixels.replaced is None or not pixels.fits(case):
        return np.zeros((num_labels, *case.label.shape), dtype=np.uint8)
    return pixels.replaced


def _decided(case: LoadedCase, predicted: Classes, earlier: Classes, labels: Sequence[int]) -> Classes:
    """What is decided on a case for all classes, one of which is corrected after the other."""
    layers = list(earlier)
    current = [
        replaced_pixels(given, labels[: len(layers)], earlier) for given in (case.label.numpy(), *_annotations(case))
    ]
    for label in labels[len(layers) :]:
        decided = decided_pixels(current, predicted, label)
        current = [replaced_pixels(given, [label], decided[None]) for given in current]
        layers.append(decided)
    return np.stack(layers)
