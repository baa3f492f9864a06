"""FedFixer: the global model and a model of the site choose for each other the samples to train on.

Ji et al., *FedFixer: Mitigating Heterogeneous Label Noise in Federated Learning*, AAAI 2024, as far as it is described
by others: neither its text nor a program could be had. The score is that of CORES² (Cheng et al., *Learning with
Instance-Dependent Label Noise: A Sample Sieve Approach*, ICLR 2021).

Equations, by what they define:
    CE(f, ỹ) − mean_c CE(f, c) ≤ 0      sample_scores.sample_scores, sample_scores.kept_samples
    CE(f, ỹ) − β Σ_c π_c CE(f, c)       confidence.ConfidentObjective
    + λ/2 ‖θ − w‖²                      site.FedFixerSite.train
"""

from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from .settings import FedFixerSettings

METHOD = Method(
    "fedfixer",
    "classification",
    FedFixerSettings,
    f"{__name__}.server:FedFixerServer",
    f"{__name__}.site:FedFixerSite",
    consensus=frozenset(ConsensusKind),
)
