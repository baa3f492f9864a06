"""Which samples a model takes for rightly labelled, by the score of CORES²; no score leaves the site."""

from collections.abc import Sequence

import torch


def sample_scores(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return CE(ỹ) − mean_c CE(c) of every sample, which is the mean logit minus that of the label, ``(N,)``.

    It is exactly 0 of a uniform prediction.

    Args:
        logits: z, ``(N, C)``, or logarithms of probabilities.
        labels: ỹ, ``(N,)``.

    Example:
        >>> logits = torch.tensor([[2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [0.1, 0.1, 0.1]])
        >>> sample_scores(logits, torch.tensor([0, 2, 1])).tolist()
        [-1.0, 1.0, 0.0]
    """
    of_label = logits.gather(1, labels.long()[:, None])
    # Differences first: the mean of equal numbers is not always one of them.
    return (logits - of_label).mean(dim=1)


def kept_samples(
    scores: torch.Tensor, candidates: torch.Tensor, units: Sequence[str], *, patients: int, samples: int
) -> torch.Tensor:
    """Return which samples are trained on, ``(N,)`` booleans: the candidates whose score is not above 0.

    Where these are of too few patients or samples, candidates with the smallest other scores come with them, as far as
    there are any.

    Args:
        scores: of :func:`sample_scores`, ``(N,)``; what is not a number counts as 0.
        candidates: which samples may be trained on, ``(N,)`` booleans.
        units: the patient of each sample.
        patients: how many patients there are to be at least.
        samples: how many samples.
    """
    scores = scores.nan_to_num(nan=0.0)
    kept = candidates & (scores <= 0)
    others = scores.masked_fill(~candidates | kept, float("inf")).argsort(stable=True).tolist()
    chosen = {units[index] for index in kept.nonzero().flatten().tolist()}
    for index in others:
        if len(chosen) >= patients and int(kept.sum()) >= samples:
            break
        if candidates[index]:
            kept[index] = True
            chosen.add(units[index])
    return kept
