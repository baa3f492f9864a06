"""FedGSCA: selection of samples and credal labels, for images that sites put into a wrong class.

Ye et al., *FedGSCA: Medical Federated Learning with Global Sample Selector and Client Adaptive Adjuster under Label
Noise*, 2025. A mixture over losses, pooled from all sites, tells each site which of its labels look right. The others
get pseudo-labels or are left out, and the loss leaves open which of several plausible classes is right.

Equations:
    Eq. 1    sample_selector.SampleSelector.fitted
    Eq. 2    sample_selector.SampleSelector
    Eq. 3    sample_selector.SampleSelector.clean_probability
    Eq. 4    sample_selector.SampleSelector.pooled
    Eq. 5    sample_selector.selector_coefficient
    Eq. 6    sample_selector.SampleSelector.clean_probability
    Eq. 7    label_selection.select_samples
    Eq. 8    label_selection.Selection.noise_level
    Eq. 9    label_selection.class_thresholds
    Eq. 10   label_selection.class_thresholds
    Eq. 11   label_selection.select_samples
    Eq. 12   label_selection.select_samples
    Eq. 13   label_selection.select_samples
    Eq. 14   credal_loss.CredalLoss
    Eq. 15   credal_loss.CredalLoss
    Eq. 16   credal_loss.CredalLoss
    Eq. 17   credal_loss.CredalLoss
    Eq. 18   fedannot.custom.aggregation.drift.stability
"""

from ...consensus_rule import ONE_LABEL
from ...interface.declaration import Method
from .outbound import OUTBOUND_FIELDS
from .settings import FedGSCASettings

METHOD = Method(
    "fedgsca",
    "classification",
    FedGSCASettings,
    f"{__name__}.server:FedGSCAServer",
    f"{__name__}.site:FedGSCASite",
    OUTBOUND_FIELDS,
    consensus=ONE_LABEL,
)
