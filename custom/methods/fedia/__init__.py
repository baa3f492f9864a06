"""FedIA: aggregation by the completeness of annotations, and their correction, for lesions that sites leave out.

Xiang et al., *FedIA: Federated Medical Image Segmentation with Heterogeneous Annotation Completeness*, MICCAI 2024.
After a warm-up by federated averaging the server compares how many lesions a site annotates with how many the model
finds there. More complete sites weigh more, until every site has added the lesions that the model predicts with
confidence.

Equations:
    Eq. 1   fedannot.custom.aggregation.weighting.quantity_weights
    Eq. 2   fedannot.custom.training.losses.SampleDice
    Eq. 3   lesion_counts.count_site_lesions, completeness.Completeness.of_counts
    Eq. 4   completeness.completeness_weights
    Eq. 5   fedannot.custom.training.losses.DiceRecord
    Eq. 6   completeness.IouLine.fit
    Eq. 7   completeness.IouLine.asks_for_correction

The job's own form, which acts on what is confirmed alone:
    completeness   predicted_lesions.confident_completeness, completeness.Completeness.is_confirmed
    weights        confirmed_weights.confirmed_weights
    good models    completeness.Completeness.is_predicted_well
    corrections    predicted_lesions.missing_lesions
"""

from ...annotation_gaps import AnnotationGap
from ...interface.declaration import Method
from .outbound import OUTBOUND_FIELDS
from .settings import FedIASettings

METHOD = Method(
    "fedia",
    "segmentation",
    FedIASettings,
    f"{__name__}.server:FedIAServer",
    f"{__name__}.site:FedIASite",
    OUTBOUND_FIELDS,
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
)
