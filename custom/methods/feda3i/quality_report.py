"""What a site reports of the learning difficulty of its annotations."""

import numpy as np
from torch import nn

from ...data.site_data import SiteData
from ...evaluation.inference import Inference
from ...interface.views import Answer
from ...outbound.fields import MINIMUM_CASES
from ...outbound.private_statistics import SampleValues
from ...outbound.reports import withhold
from ...outbound.values import OutboundValues
from ...settings import RunSettings
from .learning_difficulty import sample_difficulties


def quality_report(network: nn.Module, data: SiteData, settings: RunSettings) -> Answer:
    """Return the learning difficulty of a site (FedA³I, Eq. 3 and 4); its fields leave the site.

    A class with usable samples of fewer patients or volumes than the minimum count is NaN: the site has no estimate for
    it.
    """
    samples = sample_difficulties(network, data.cases, settings.network.num_classes, Inference.of(settings))
    difficulty = samples.mean()
    counts = [int(count) for count in difficulty.num_units]
    report: OutboundValues = {
        "num_samples": data.num_samples,
        "num_annotated": difficulty.annotated_units,
        "num_estimated": counts,
        "inner_difficulty": withhold(difficulty.inner, counts),
        "outer_difficulty": withhold(difficulty.outer, counts),
    }
    if difficulty.annotated_units >= MINIMUM_CASES:
        report["predicted_share"] = float(difficulty.predicted_share)
    by_sample = {
        "inner_difficulty": np.where(samples.usable, samples.inner, np.nan),
        "outer_difficulty": np.where(samples.usable, samples.outer, np.nan),
        "predicted_share": samples.found,
    }
    return Answer(
        report, {name: SampleValues.of(values, samples.units, is_mean=True) for name, values in by_sample.items()}
    )
