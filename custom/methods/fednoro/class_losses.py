"""What a site reports of how well the global model knows its labels: a mean loss of each class."""

import numpy as np
from torch import nn

from ...data.site_data import SiteData
from ...evaluation.inference import Inference
from ...interface.views import Answer
from ...outbound.private_statistics import SampleValues
from ...outbound.reports import withhold
from ...settings import RunSettings

_SMALLEST_PROBABILITY = 1e-7


def class_loss_report(network: nn.Module, data: SiteData, settings: RunSettings) -> Answer:
    """Return the mean cross entropy of each class at a site, of plain logits in evaluation mode; its fields leave.

    A class with samples of fewer patients than the minimum count is NaN. Probabilities count as at least 1e-7.

    Args:
        network: the global model.
        data: the site's training cases with their given labels.
        settings: the job's.
    """
    probabilities = Inference.of(settings).class_probabilities(network, data.cases).numpy()
    labels, units = data.labels.numpy(), np.array(data.units)
    losses = -np.log(np.maximum(probabilities[np.arange(len(labels)), labels], _SMALLEST_PROBABILITY))
    of_class = labels[:, None] == np.arange(settings.network.num_classes)
    patients = [len(set(units[chosen])) for chosen in of_class.T]
    counts = of_class.sum(axis=0)
    means = np.where(of_class, losses[:, None], 0.0).sum(axis=0) / np.maximum(counts, 1)
    values = np.where(of_class, losses[:, None], np.nan)
    return Answer(
        {
            "num_samples": data.num_samples,
            "class_losses": withhold(means, patients),
            "num_loss_patients": patients,
        },
        {"class_losses": SampleValues.of(values, units, is_mean=True)},
    )
