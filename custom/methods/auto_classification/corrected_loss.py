"""Cross entropy that knows how labels are wrong (forward correction)."""

import torch
from torch import nn

_SMALLEST_PROBABILITY = 1e-12


class ForwardCorrected(nn.Module):
    """−log Σ_c p_c T_c,given: cross entropy of the given labels, with what the model says of the true ones.

    Patrini et al., *Making Deep Neural Networks Robust to Label Noise: a Loss Correction Approach*, CVPR 2017. Where T
    is right, the model that makes it least is the one that right labels would have made; with T the identity it is the
    cross entropy.

    Args:
        transition: T, ``(C, C)``: probability that a sample truly of the row's class is given as the column's.

    Raises:
        ValueError: if the rows are no probabilities.
    """

    transition: torch.Tensor

    def __init__(self, transition: torch.Tensor) -> None:
        super().__init__()
        square = transition.ndim == 2 and transition.shape[0] == transition.shape[1]
        if not square or (transition < 0).any() or not torch.allclose(transition.sum(dim=1).float(), torch.ones(1)):
            raise ValueError(f"Expected square rows of probabilities that add up to one, but got {transition.tolist()}")
        self.register_buffer("transition", transition.float())

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of logits ``(B, C)`` and given classes ``(B,)``."""
        # In logarithms: the true class may have next to no probability, and no class may be given as this one.
        log_transition = self.transition.clamp_min(_SMALLEST_PROBABILITY).log().to(logits.device)
        towards_given = log_transition.T[labels]
        return -(logits.float().log_softmax(dim=1) + towards_given).logsumexp(dim=1).mean()
