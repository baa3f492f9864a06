"""FedGSCA: a global sample selector tells clean from noisy labels at every site."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from ..method_settings import FedGSCASettings
from ..methods.fedgsca.sample_selector import SampleSelector
from .federated_averaging import FedAvgController
from .messages import SELECTOR


class FedGSCAController(FedAvgController):
    """Global sample selector and client adaptive adjustment (Ye et al., 2025, Sec. 3).

    A warm-up of federated averaging may come first, for a network that knows nothing yet. Models are averaged by
    numbers of samples. With its model every site sends the mixture of two Gaussians fitted to the losses of its samples
    (``selector_means``, ``selector_variances``, ``selector_priors``), and its noise level δ; the mean of the mixtures,
    by numbers of samples (Eq. 4), goes to all sites with the next round's model. A site whose mixture collapsed, or
    with too few patients in a component, sends none, and the mean is over those who did; where no site does the
    selector stays as it was.
    """

    method: ClassVar[str] = "fedgsca"
    site_scalars: ClassVar[tuple[str, ...]] = ("train_loss", "noise_level")
    settings_type = FedGSCASettings
    settings: FedGSCASettings

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.selector: SampleSelector | None = None

    def stage(self, round_number: int) -> str:
        """Return ``warm-up`` or ``sample selection``."""
        return "warm-up" if round_number <= self.settings.warmup_rounds else "sample selection"

    @property
    def rounds_of_averaging(self) -> int:
        """The warm-up."""
        return int(self.settings.warmup_rounds)

    def task_meta(self) -> dict[str, Any]:
        """Return the global sample selector, where there is one."""
        if self.selector is None or self.settings.selector == "own":
            return {}
        return {SELECTOR: _lists(self.selector)}

    def after_training(self, reports: Mapping[str, Mapping[str, Any]]) -> None:
        """Pool the sites' selectors."""
        selectors: dict[str, SampleSelector] = {}
        for site, report in reports.items():
            if "selector_means" not in report:
                continue
            try:
                selectors[site] = SampleSelector.of_lists(
                    *(report[f"selector_{name}"] for name in ("means", "variances", "priors"))
                )
            except (TypeError, ValueError) as error:
                self.warning(f"The sample selector of {site} is not used: {error}")
        if selectors:
            samples = {site: int(reports[site]["num_samples"]) for site in selectors}
            self.selector = SampleSelector.pooled(selectors, self._bounds.mean_weights(samples))
            if absent := sorted(set(reports) - set(selectors)):
                self.info(f"No sample selector came from {absent}.")

    def describe_round(self) -> dict[str, Any]:
        """Return the selector after the round."""
        return {"selector": None if self.selector is None else _lists(self.selector)}

    def method_state(self) -> dict[str, Any]:
        """Return the selector as plain values."""
        return self.describe_round()

    def restore_method_state(self, state: Mapping[str, Any]) -> None:
        """Take the selector back."""
        if state.get("selector") is not None:
            self.selector = SampleSelector.of_lists(**state["selector"])

    def describe(self) -> dict[str, Any]:
        """Return the selector of the last round."""
        return self.describe_round()


def _lists(selector: SampleSelector) -> dict[str, list[float]]:
    return {name: list(values) for name, values in asdict(selector).items()}
