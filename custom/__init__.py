"""The federated part: site statistics, aggregation weights, local training, and the NVFlare components around them."""

from typing import TYPE_CHECKING

from ..transforms.lazy_names import lazy_names

if TYPE_CHECKING:
    from .aggregation.streaming_average import StreamingAverage
    from .aggregation.weighting import LayerWeights, quantity_weights
    from .channel.cases import JudgedCase
    from .channel.confusion import confident_joint
    from .channel.site_estimates import estimate_completeness, estimate_offset
    from .data.description import read_site_description
    from .data.federation import read_federation
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
    from .methods.lookup import all_methods, find_method
    from .networks.building import build_classifier, build_network, layer_blocks
    from .seeding import derive_seed
    from .training.losses import segmentation_loss

__all__ = [
    "Cells",
    "Chambers",
    "JudgedCase",
    "LayerWeights",
    "LesionImages",
    "LesionVolumes",
    "Method",
    "NoiseChoice",
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
    "write_phantom_federation",
]

# Where each is: its module below this package.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "StreamingAverage": "aggregation.streaming_average",
        **dict.fromkeys(("LayerWeights", "quantity_weights"), "aggregation.weighting"),
        "JudgedCase": "channel.cases",
        "confident_joint": "channel.confusion",
        **dict.fromkeys(("estimate_completeness", "estimate_offset"), "channel.site_estimates"),
        "read_site_description": "data.description",
        "read_federation": "data.federation",
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
        "Method": "methods.declaration",
        **dict.fromkeys(("all_methods", "find_method"), "methods.lookup"),
        **dict.fromkeys(("ServerMethod", "SiteMethod"), "methods.method"),
        **dict.fromkeys(("build_classifier", "build_network", "layer_blocks"), "networks.building"),
        "derive_seed": "seeding",
        "segmentation_loss": "training.losses",
    },
)
