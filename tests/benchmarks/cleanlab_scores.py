"""Cleanlab's label quality of segmentations, in a Python environment that needs nothing else of this project.

    python tests/benchmarks/cleanlab_scores.py SITE.npz

The file has ``labels`` ``(N, H, W)`` and ``probabilities`` ``(N, C + 1, H, W)`` by number of the case (``labels_0``,
``probabilities_0``, …). Printed is a JSON list: one less the quality of every case, of several slices the worst.
"""

import json
import sys
from pathlib import Path

import numpy as np
from cleanlab.segmentation.rank import get_label_quality_scores


def scores(file: Path) -> list[float]:
    """Return one less the label quality of every case, in the order of their numbers."""
    result = []
    with np.load(file) as content:
        for number in range(len(content.files) // 2):
            labels, probabilities = content[f"labels_{number}"], content[f"probabilities_{number}"]
            quality, _ = get_label_quality_scores(labels, probabilities, method="softmin", verbose=False)
            result.append(1 - float(quality.min()))
    return result


if __name__ == "__main__":
    print(json.dumps(scores(Path(sys.argv[1]))))
