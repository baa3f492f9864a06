"""FedGSCA at the server: the mean of the sites' sample selectors goes to all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, TypedDict

from ...interface.views import Round
from ...records.round_records import RoundRecord
from ..fedavg.server import FedAvgServer
from .sample_selector import SampleSelector
from .settings import FedGSCASettings

# In what goes to sites with a training task: the global sample selector, lists under the names of its attributes.
SELECTOR = "fedannot_selector"

# A sample selector's attributes by their names.
PlainSelector = dict[str, list[float]]


class SelectorState(TypedDict):
    """What is kept over a restart, and said of a round and of the run."""

    selector: PlainSelector | None


class FedGSCAServer(FedAvgServer):
    """Global sample selector and client adaptive adjustment (Ye et al., 2025, Sec. 3).

    A warm-up of federated averaging may come first, for a network that knows nothing yet. Models are averaged by
    numbers of samples. With its model every site sends the mixture of two Gaussians fitted to the losses of its samples
    (``selector_means``, ``selector_variances``, ``selector_priors``), and its noise level δ; the mean of the mixtures,
    by numbers of samples (Eq. 4), goes to all sites with the next round's model. A site whose mixture collapsed, or
    with too few patients in a component, sends none, and the mean is over those who did; where no site does the
    selector stays as it was.
    """

    settings: FedGSCASettings
    site_scalars: ClassVar[tuple[str, ...]] = ("train_loss", "noise_level")

    def __init__(self, settings: FedGSCASettings) -> None:
        super().__init__(settings)
        self.selector: SampleSelector | None = None

    @property
    def rounds_of_averaging(self) -> int:
        """The warm-up."""
        return self.settings.warmup_rounds

    def stage(self, this_round: Round) -> str:
        """Return ``warm-up`` or ``sample selection``."""
        return "warm-up" if this_round.number <= self.settings.warmup_rounds else "sample selection"

    def message(self, this_round: Round) -> dict[str, PlainSelector]:
        """Return the global sample selector, where there is one."""
        del this_round
        if self.selector is None or self.settings.selector == "own":
            return {}
        return {SELECTOR: _lists(self.selector)}

    def after_training(self, this_round: Round) -> None:
        """Pool the sites' selectors."""
        selectors: dict[str, SampleSelector] = {}
        for site, report in this_round.reports.items():
            if not report.has("selector_means"):
                continue
            try:
                selectors[site] = SampleSelector.of_lists(
                    *(report.extra[f"selector_{name}"] for name in ("means", "variances", "priors"))
                )
            except (TypeError, ValueError) as error:
                this_round.warning(f"The sample selector of {site} is not used: {error}")
        if selectors:
            samples = {site: count for site, count in this_round.samples_of_reports.items() if site in selectors}
            self.selector = SampleSelector.pooled(selectors, this_round.bounds.mean_weights(samples))
            if absent := sorted(set(this_round.reports) - set(selectors)):
                this_round.info(f"No sample selector came from {absent}.")

    def record(self, this_round: Round) -> Mapping[str, object]:
        """Return the selector after the round."""
        return {**super().record(this_round), **self.state()}

    def state(self) -> SelectorState:
        """Return the selector as plain values."""
        return {"selector": None if self.selector is None else _lists(self.selector)}

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take the selector back."""
        del history
        if state.get("selector") is not None:
            self.selector = SampleSelector.of_lists(**state["selector"])

    def describe(self, this_round: Round) -> SelectorState:
        """Return the selector of the last round."""
        del this_round
        return self.state()


def _lists(selector: SampleSelector) -> PlainSelector:
    return {name: list(values) for name, values in asdict(selector).items()}
