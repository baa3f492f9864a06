"""What a site reports of its selection of samples."""

from dataclasses import asdict

import numpy as np

from ....transforms.array_types import Floats
from ...data.site_data import SiteData
from ...outbound.fields import MINIMUM_CASES
from ...outbound.values import OutboundValues
from .label_selection import Selection
from .sample_selector import SampleSelector


def selection_report(
    data: SiteData, selection: Selection, selector: SampleSelector | None, losses: Floats
) -> OutboundValues:
    """Return the noise level of a site and its sample selector (FedGSCA, Eq. 2 and 8); leaves the site.

    Nothing is reported with training on fewer patients than the minimum count. No selector is reported where the
    mixture collapsed, the site keeps its own to itself, or a component has fewer patients: its mean and variance would
    tell their losses.

    Args:
        data: the site's data.
        selection: what was trained on.
        selector: the mixture, None if there is none to report.
        losses: that it was fitted to, ``(N,)``.
    """
    units = np.array(data.units, dtype=str)
    if len(set(units[selection.used])) < MINIMUM_CASES:
        return {}
    report: OutboundValues = {"noise_level": selection.noise_level}
    if selector is None:
        return report
    is_first = selector.clean_probability(losses) > 0.5
    patients = [len(set(units[of_component])) for of_component in (is_first, ~is_first)]
    if min(patients) < MINIMUM_CASES:
        return report
    mixture = {f"selector_{name}": list(values) for name, values in asdict(selector).items()}
    return report | mixture | {"selector_patients": patients}
