"""Reviewed cases at the server: the global model judges them there, and no site has to say where zero lies."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from ...channel.estimate import Estimate
from ...channel.image_features import ImageStatistics, image_statistics
from ...channel.image_gate import gate_by_images
from ...channel.judging import cut_to_objects, judged_by
from ...channel.self_calibration import calibrate_offset
from ...channel.site_estimates import estimate_offset
from ...data.site_data import SiteData
from ...evaluation.inference import Inference
from ...outbound.fields import MINIMUM_CASES
from .channel_report import pixel_size
from .settings import JudgingSettings

# No site has an empty name.
_SERVER = ""


@dataclass(frozen=True)
class ServerReference:
    """What the model says of the server's reviewed cases.

    Attributes:
        offsets: of reviewed contours from predicted ones, by class, corrected by the slope of known errors.
        images: what their images are like.
        pixel_size: in millimetres, 1 where it is not known.
    """

    offsets: tuple[Estimate, ...]
    images: ImageStatistics
    pixel_size: float

    @classmethod
    def of(cls, network: nn.Module, data: SiteData, settings: JudgingSettings, *, seed: int) -> "ServerReference":
        """Let a model judge reviewed cases.

        Args:
            network: with the global model, which has learnt none of them.
            data: the cases.
            settings: the job's.
            seed: decides intervals and known errors.
        """
        judged = (cut_to_objects(case) for case in judged_by(network, Inference.of(settings))(data.cases))
        cases = [case for case in judged if case is not None]
        offsets = [
            calibrate_offset(cases, label, seed=seed).of(estimate_offset(cases, label, seed=seed)).corrected()
            for label in range(1, settings.network.num_classes + 1)
        ]
        images = image_statistics((case.image.numpy() for case in data.cases), [case.unit for case in data.cases])
        return cls(
            # Of fewer patients an interval says nothing.
            tuple(one if one.patients >= MINIMUM_CASES else Estimate.unknown() for one in offsets),
            images,
            pixel_size(data),
        )

    def is_like(self, sites: Mapping[str, ImageStatistics], *, unknown_is_like: bool) -> bool:
        """Return whether its images are like those of most sites: else the model may err in them otherwise than there.

        Args:
            sites: what the sites' images are like.
            unknown_is_like: what counts where that cannot be told.
        """
        gate = gate_by_images({**sites, _SERVER: self.images})[_SERVER]
        return not gate.distinct if gate.is_known else unknown_is_like
