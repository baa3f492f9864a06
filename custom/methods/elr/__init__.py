"""ELR: what the model predicted of a pixel or image so far, a moving average, holds training back from wrong labels.

Liu et al., *Early-Learning Regularization Prevents Memorization of Noisy Labels*, NeurIPS 2020. It is of classification
on one machine. Here each site has its own averages, in segmentation one for each pixel of a sample.

Equations, by what they define:
    t ← β t + (1 − β) p                 prediction_memory.PredictionMemory.visit
    L + λ mean log(1 − ⟨t, p⟩)          regularisation.EarlyLearningObjective, regularisation.early_learning_term
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from .settings import ElrClassificationSettings, ElrSettings

_PARTS = ("fedannot.custom.methods.fedavg.server:FedAvgServer", f"{__name__}.site:ElrSite")

METHODS = (
    Method(
        "elr",
        "segmentation",
        ElrSettings,
        *_PARTS,
        supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
        consensus=frozenset(ConsensusKind),
    ),
    Method("elr", "classification", ElrClassificationSettings, *_PARTS, consensus=frozenset(ConsensusKind)),
)
