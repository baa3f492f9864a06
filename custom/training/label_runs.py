"""Where labels are in an annotation, as runs of neighbouring voxels: found in one pass, and small."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ...transforms.array_types import Indices


@dataclass(frozen=True)
class LabelRuns:
    """The flat positions of the voxels with a label, in ascending order.

    Attributes:
        starts: first position of each run of neighbours, ``(R,)``, ascending.
        ends: how many of these voxels are in this run and those before it, ``(R,)``.
    """

    starts: Indices
    ends: Indices

    def __len__(self) -> int:
        """Return the number of voxels."""
        return int(self.ends[-1])

    def positions(self, ranks: torch.Tensor) -> torch.Tensor:
        """Return the positions of the voxels with these ranks among them.

        Args:
            ranks: ``(N,)`` int64, from 0 to the number of voxels less 1.
        """
        wanted = ranks.numpy()
        run = np.searchsorted(self.ends, wanted, side="right")
        before = self.ends[run - 1] * (run > 0)
        return torch.from_numpy(self.starts[run] + wanted - before)


def label_runs(annotation: torch.Tensor) -> Mapping[int, LabelRuns]:
    """Return the runs of each label that an annotation has, by label, in ascending order.

    Example:
        >>> runs = label_runs(torch.tensor([[0, 2, 2], [2, 0, 2]]))[2]
        >>> len(runs), runs.positions(torch.arange(4)).tolist()
        (4, [1, 2, 3, 5])

    Args:
        annotation: ``(H, W[, D])`` integers; in main memory.
    """
    flat = annotation.flatten().numpy()
    starts = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1])
    labels, lengths = flat[starts], np.diff(starts, append=flat.size)
    result = {}
    for label in np.unique(labels).tolist():
        is_label = labels == label
        result[int(label)] = LabelRuns(starts[is_label], np.cumsum(lengths[is_label]))
    return result
