"""The federated part: site statistics, aggregation weights, local training, and the NVFlare components around them."""

from typing import TYPE_CHECKING

from ..transforms.lazy_names import lazy_names

if TYPE_CHECKING:
    from .aggregation.drift import squared_distance
    from .aggregation.streaming_average import StreamingAverage
    from .aggregation.weighting import LayerWeights, quantity_weights
    from .annotation_bias.cases import PredictedCase
    from .annotation_bias.confusion import confident_joint
    from .annotation_bias.site_estimates import estimate_completeness, estimate_offset
    from .annotation_gaps import AnnotationGap
    from .data.description import read_site_description
    from .data.federation import read_federation
    from .data.noise.annotator_copy import AnnotatorScenario, write_annotator_scenario
    from .data.noise.choice import NoiseChoice
    from .data.noise.mislabelled_copy import mislabel_cases
    from .data.noise.noisy_copy import add_contour_noise, follow_protocols, leave_lesions_out
    from .data.phantoms.cells import Cells
    from .data.phantoms.chambers import Chambers
    from .data.phantoms.lesion_images import LesionImages
    from .data.phantoms.lesion_volumes import LesionVolumes
    from .data.phantoms.writer import write_phantom_federation
    from .data.site_data import load_site_data
    from .evaluation.segmentation_scores import score_labels
    from .interface.declaration import Method
    from .interface.method import ServerMethod, SiteMethod
    from .methods.fedavg.server import FedAvgServer
    from .methods.fedavg.settings import FedAvgSettings
    from .methods.fedavg.site import FedAvgSite
    from .methods.lookup import all_methods, find_method
    from .networks.building import build_classifier, build_network, layer_blocks
    from .outbound.fields import OutboundField
    from .seeding import derive_seed
    from .task_names import TRAIN
    from .training.losses import segmentation_loss

__all__ = [
    "TRAIN",
    "AnnotationGap",
    "AnnotatorScenario",
    "Cells",
    "Chambers",
    "FedAvgServer",
    "FedAvgSettings",
    "FedAvgSite",
    "LayerWeights",
    "LesionImages",
    "LesionVolumes",
    "Method",
    "NoiseChoice",
    "OutboundField",
    "PredictedCase",
    "ServerMethod",
    "SiteMethod",
    "StreamingAverage",
    "add_contour_noise",
    "all_methods",
    "build_classifier",
    "build_network",
    "confident_joint",
    "derive_seed",
    "estimate_completeness",
    "estimate_offset",
    "find_method",
    "follow_protocols",
    "layer_blocks",
    "leave_lesions_out",
    "load_site_data",
    "mislabel_cases",
    "quantity_weights",
    "read_federation",
    "read_site_description",
    "score_labels",
    "segmentation_loss",
    "squared_distance",
    "write_annotator_scenario",
    "write_phantom_federation",
]

# Where each is: its module below this package.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "squared_distance": "aggregation.drift",
        "StreamingAverage": "aggregation.streaming_average",
        **dict.fromkeys(("LayerWeights", "quantity_weights"), "aggregation.weighting"),
        "AnnotationGap": "annotation_gaps",
        "PredictedCase": "annotation_bias.cases",
        "confident_joint": "annotation_bias.confusion",
        **dict.fromkeys(("estimate_completeness", "estimate_offset"), "annotation_bias.site_estimates"),
        "read_site_description": "data.description",
        "read_federation": "data.federation",
        **dict.fromkeys(("AnnotatorScenario", "write_annotator_scenario"), "data.noise.annotator_copy"),
        "NoiseChoice": "data.noise.choice",
        "mislabel_cases": "data.noise.mislabelled_copy",
        **dict.fromkeys(("add_contour_noise", "follow_protocols", "leave_lesions_out"), "data.noise.noisy_copy"),
        "Cells": "data.phantoms.cells",
        "Chambers": "data.phantoms.chambers",
        "LesionImages": "data.phantoms.lesion_images",
        "LesionVolumes": "data.phantoms.lesion_volumes",
        "write_phantom_federation": "data.phantoms.writer",
        "load_site_data": "data.site_data",
        "score_labels": "evaluation.segmentation_scores",
        "Method": "interface.declaration",
        "FedAvgServer": "methods.fedavg.server",
        "FedAvgSettings": "methods.fedavg.settings",
        "FedAvgSite": "methods.fedavg.site",
        **dict.fromkeys(("all_methods", "find_method"), "methods.lookup"),
        **dict.fromkeys(("ServerMethod", "SiteMethod"), "interface.method"),
        **dict.fromkeys(("build_classifier", "build_network", "layer_blocks"), "networks.building"),
        "OutboundField": "outbound.fields",
        "derive_seed": "seeding",
        "TRAIN": "task_names",
        "segmentation_loss": "training.losses",
    },
)
