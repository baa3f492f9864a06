"""Runs of a label stand for its positions, as a search for every voxel finds them, and draw the same ones."""

import pytest
import torch

from fedannot.custom.training import patches
from fedannot.custom.training.label_runs import label_runs
from fedannot.custom.training.patches import PatchCentres
from fedannot.transforms.ignored_label import IGNORED_LABEL


def drawn_labels(seed: int, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    """Ragged regions of four labels, one of them ignored; a label without voxels is between them."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randint(4, (5, 7, 3), generator=generator).repeat_interleave(3, 2)
    chosen = torch.randint(4, coarse.shape, generator=generator)
    values = torch.tensor([0, 1, 4, IGNORED_LABEL])
    return values[torch.where(torch.rand(coarse.shape, generator=generator) < 0.3, chosen, coarse)].to(dtype)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
@pytest.mark.parametrize("seed", range(4))
def test_positions_are_those_that_a_search_finds(seed: int, dtype: torch.dtype) -> None:
    # Not contiguous, as a volume is whose axes were turned.
    annotation = drawn_labels(seed, dtype).permute(2, 0, 1)
    runs = label_runs(annotation)
    assert list(runs) == annotation.unique().tolist()
    for label, of_label in runs.items():
        expected = (annotation.flatten() == label).nonzero().flatten()
        assert len(of_label) == len(expected)
        ranks = torch.randperm(len(expected), generator=torch.Generator().manual_seed(seed))
        assert torch.equal(of_label.positions(ranks), expected[ranks])


def searched_positions(annotation: torch.Tensor, kept: int, generator: torch.Generator) -> list[torch.Tensor]:
    """Some positions of each class, as they were drawn before there were runs."""
    flat = annotation.flatten()
    largest = int(flat.masked_fill(flat == IGNORED_LABEL, 0).max())
    found = [(flat == label).nonzero().flatten() for label in range(1, largest + 1)]
    return [
        positions if len(positions) <= kept else positions[torch.randint(len(positions), (kept,), generator=generator)]
        for positions in found
        if len(positions)
    ]


@pytest.mark.parametrize("kept", [10, 1000])
def test_the_same_centres_are_drawn_as_by_a_search(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr(patches, "_KEPT_POSITIONS", kept)
    annotation = drawn_labels(7)
    drawn, searched = (torch.Generator().manual_seed(3) for _ in range(2))
    centres = PatchCentres([annotation])
    for turn in range(20):
        if turn == 0:
            classes = searched_positions(annotation, kept, searched)
        of_class = classes[int(torch.randint(len(classes), (), generator=searched))]
        position = int(of_class[int(torch.randint(len(of_class), (), generator=searched))])
        expected = tuple(int(index) for index in torch.unravel_index(torch.tensor(position), annotation.shape))
        assert centres.draw_on_object(0, drawn) == expected
    assert torch.equal(drawn.get_state(), searched.get_state())


def test_the_same_background_is_drawn_in_a_volume_mostly_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    annotation = torch.full((9, 9, 9), IGNORED_LABEL, dtype=torch.uint8)
    annotation[4, 2:5, 7] = 0
    # None of those tried is background.
    monkeypatch.setattr(patches, "_draw_background", lambda *_: None)
    generator, other = (torch.Generator().manual_seed(5) for _ in range(2))
    background = (annotation.flatten() == 0).nonzero().flatten()
    centres = PatchCentres([annotation])
    for _ in range(9):
        position = int(background[int(torch.randint(len(background), (), generator=other))])
        assert centres.draw(0, generator) == tuple(torch.unravel_index(torch.tensor(position), annotation.shape))
