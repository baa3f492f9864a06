"""Reviewed cases at the server: the global model predicts them there, and no site has to say where the reference level
is.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from ...annotation_bias.domain_check import check_domains
from ...annotation_bias.error_injection import calibrate_offset
from ...annotation_bias.estimate import Estimate
from ...annotation_bias.ignored_objects import whole_objects
from ...annotation_bias.image_features import ImageStatistics, image_statistics
from ...annotation_bias.predicted_samples import cut_to_objects, predicted_by
from ...annotation_bias.site_estimates import estimate_offset
from ...data.site_data import SiteData
from ...evaluation.inference import Inference
from ...outbound.fields import MINIMUM_CASES
from .bias_measurement import pixel_size
from .settings import BiasSettings

# No site has an empty name.
_SERVER = ""


@dataclass(frozen=True)
class ServerReference:
    """What the model says of the server's reviewed cases.

    Attributes:
        offsets: of reviewed contours from predicted ones, by class, corrected by the slope of injected errors.
        images: what their images are like.
        pixel_size: in millimetres, 1 where it is not known.
    """

    offsets: tuple[Estimate, ...]
    images: ImageStatistics
    pixel_size: float

    @classmethod
    def of(cls, network: nn.Module, data: SiteData, settings: BiasSettings, *, seed: int) -> "ServerReference":
        """Let a model predict reviewed cases.

        Args:
            network: with the global model, which has learnt none of them.
            data: the cases.
            settings: the job's.
            seed: decides intervals and injected errors.
        """
        whole, predict = whole_objects(data.description), predicted_by(network, Inference.of(settings))
        predicted = (cut_to_objects(whole(case)) for case in predict(data.cases))
        cases = [case for case in predicted if case is not None]
        offsets = [
            calibrate_offset(cases, label, seed=seed).of(estimate_offset(cases, label, seed=seed)).corrected()
            for label in range(1, settings.network.num_classes + 1)
        ]
        images = image_statistics((case.image.numpy() for case in data.cases), [case.unit for case in data.cases])
        return cls(
            # Of fewer patients an interval says nothing.
            tuple(offset if offset.patients >= MINIMUM_CASES else Estimate.unknown() for offset in offsets),
            images,
            pixel_size(data),
        )

    def is_like(self, sites: Mapping[str, ImageStatistics], *, unknown_is_like: bool) -> bool:
        """Return whether its images are like those of most sites: else the model may err in them otherwise than there.

        Args:
            sites: what the sites' images are like.
            unknown_is_like: what counts where that cannot be known.
        """
        check = check_domains({**sites, _SERVER: self.images})[_SERVER]
        return not check.out_of_domain if check.is_known else unknown_is_like
