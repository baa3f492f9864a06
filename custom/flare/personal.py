"""Methods with personal parts, aggregated at a server: what is shared is averaged, the rest stays at the sites."""

from typing import ClassVar

from ..method_settings import (
    DecoupledSettings,
    DittoSettings,
    FedRepSettings,
    PersonalSettings,
    SingleSiteSettings,
)
from ..outbound.registry import KEEP_MODEL
from ..settings import RunSettings
from .federated_averaging import FedAvgController


class PersonalController(FedAvgController):
    """Federated averaging of the shared part; every site keeps the final model with its own part.

    After the last round the sites get the final shared part with the task ``keep_model``. Where the shared part is no
    model by itself, the sites' own models are scored on their validation cases instead of a test set at the server.
    """

    settings_type: ClassVar[type[RunSettings]] = PersonalSettings
    settings: PersonalSettings

    @property
    def is_scored_at_server(self) -> bool:
        """Whether the shared part is a model by itself."""
        return self.settings.has_global_model

    def after_rounds(self) -> None:
        """Let every site keep its model; one that does not answer has the personal layers of its last round."""
        answers = self.ask_sites(KEEP_MODEL, self.settings.rounds)
        if self.abort_signal.triggered:
            return
        if absent := sorted(set(self.num_samples) - {site for site, answer in answers.items() if answer["has_model"]}):
            self.warning(f"{absent} did not store the final model.")


class DecoupledController(PersonalController):
    """Decoupled predictions (Gao et al., MICCAI 2022): a global model, and at each site an adaptation of it.

    Segmentation network, prior and posterior are averaged by numbers of samples (Sec. 2); the adaptation networks stay
    at the sites.
    """

    method: ClassVar[str] = "decoupled"
    settings_type = DecoupledSettings
    settings: DecoupledSettings

    def stage(self, round_number: int) -> str:
        """Return ``warm-up`` or ``decoupled predictions``."""
        return "warm-up" if round_number <= self.settings.warmup_rounds else "decoupled predictions"


class FedRepController(PersonalController):
    """FedRep (Collins et al., ICML 2021): the representation is averaged, every site has a head of its own."""

    method: ClassVar[str] = "fedrep"
    settings_type = FedRepSettings


class DittoController(PersonalController):
    """Ditto (Li et al., ICML 2021): federated averaging, and beside it a model of each site near the global one."""

    method: ClassVar[str] = "ditto"
    settings_type = DittoSettings


class SingleSiteController(PersonalController):
    """Every site by itself: nothing is averaged but what all were sent."""

    method: ClassVar[str] = "single_site"
    settings_type = SingleSiteSettings
