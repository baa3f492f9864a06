"""A site of methods with personal parts: what is personal is kept in the site's files and is in no result.

The personal part is a module of its own, so that there is nothing to filter out of the shared one.
"""

import torch
from torch import nn

from ...data.datalist import TRAINING
from ...data.json_record import write_record
from ...data.personal_files import LOCAL_MODEL_FILE, LOCAL_SCORES_FILE, PERSONAL_FOLDER
from ...data.tensor_files import write_tensors
from ...data.whole_files import private_folder
from ...evaluation.inference import Inference
from ...evaluation.local_scores import local_scores
from ...interface.views import Answer, SiteView, Trained
from ...networks.devices import params_in_main_memory, ready_to_compute
from ...seeding import derive_seed
from ...training.batch import Batches
from ...training.loop import TrainingOutcome
from ..fedavg.site import FedAvgSite
from .kept_module import keep_module, restore_module
from .own_threshold import AtThreshold, own_threshold
from .settings import PersonalSettings


class PersonalSite(FedAvgSite):
    """Trains the shared network together with the site's personal part, and keeps the site's own model.

    What training sends is the state dict of the shared network, which has no personal entry; the site's own model is
    scored on its validation cases. After the last round the final shared network is stored with the personal part, and
    the scores of both predictions, in the run's folder.
    """

    settings: PersonalSettings

    # --- what a method overrides

    def start(self, shared: nn.Module, seed: int) -> nn.Module:
        """Return the personal part with which a site begins, given the first received network."""
        raise NotImplementedError

    def train_both(self, shared: nn.Module, personal: nn.Module, batches: Batches, site: SiteView) -> TrainingOutcome:
        """Train both in place. What is personal of the shared network's entries is left as it was received."""
        raise NotImplementedError

    def local_model(self, shared: nn.Module, personal: nn.Module) -> nn.Module:
        """Return the site's own model, which maps images to logits."""
        raise NotImplementedError

    # --- what they share

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train the shared and the personal part, and keep the latter."""
        personal, _ = self._personal_part(network, site, site.round_number - 1)
        batches = self.batches(site.load(TRAINING), network, self.targets(site))
        outcome = self.train_both(network, personal, batches, site)
        keep_module(personal, site, PERSONAL_FOLDER, self.settings.keep_rounds)
        return Trained(outcome)

    def model_in_use(self, network: nn.Module, site: SiteView) -> nn.Module:
        """Return the site's own model."""
        personal, _ = self._personal_part(network, site, site.round_number)
        return self.local_model(network, personal)

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``keep_model``."""
        del task
        self._keep(network, site)
        return Answer({"has_model": True})

    def after_run(self, network: nn.Module, site: SiteView) -> None:
        """Keep the last model."""
        self._keep(network, site)

    def _personal_part(self, network: nn.Module, site: SiteView, last_round: int) -> tuple[nn.Module, bool]:
        """The personal part as it was after a round, or the last one before it that was kept, and whether one was.

        As a site begins, where none was, or what was kept cannot be read.
        """
        personal = self.start(network, derive_seed(self.settings.seed, site.name, "personal layers"))
        has_kept = restore_module(personal, site, PERSONAL_FOLDER, first_round=None, last_round=last_round)
        return ready_to_compute(personal), has_kept

    def _keep(self, network: nn.Module, site: SiteView) -> None:
        """Store a shared model with the site's own layers and threshold, and what the predictions score."""
        folder = site.run_folder / PERSONAL_FOLDER
        private_folder(folder)
        personal, has_kept = self._personal_part(network, site, site.round_number)
        if not has_kept:
            site.warning("This site has no layers of its own of a training: they are as a site begins.")
        shared_params, own_params = params_in_main_memory(network), params_in_main_memory(personal)
        content: dict[str, dict[str, torch.Tensor] | float] = {
            "shared": shared_params,
            "personal": own_params,
            "round": site.round_number,
        }
        own = self.local_model(network, personal)
        models = {"local": own}
        if self.settings.own_threshold:
            threshold = self._own_threshold(own, site)
            content["threshold"] = threshold
            models = {"local_at_half": own, "local": AtThreshold(own, threshold)}
        write_tensors(folder / LOCAL_MODEL_FILE, content)
        site.info(f"The model with this site's own layers is {folder / LOCAL_MODEL_FILE}.")
        if (data := site.validation_data()) is None:
            site.warning(
                "This site's datalist has no list 'validation', so that nothing says what the shared model and its own "
                "score on its cases."
            )
        else:
            if self.settings.has_global_model:
                models = {"global": network} | models
            scores = local_scores(models, data, self.settings)
            write_record(folder / LOCAL_SCORES_FILE, scores)
            known = {name: score.dice for name, score in scores.models.items() if score.dice is not None}
            what = ", ".join(f"{name} {100 * dice:.1f} %" for name, dice in known.items()) or "nothing is annotated"
            site.info(f"Dice on this site's {scores.num_cases} validation cases: {what}.")

    def _own_threshold(self, model: nn.Module, site: SiteView) -> float:
        """The threshold that fits the site's training annotations best."""
        settings = self.settings
        threshold = own_threshold(
            model, site.load(TRAINING).cases, settings.network.num_classes, Inference.of(settings)
        )
        site.info(f"A pixel is foreground from a probability of {threshold:g} on: best on this site's annotations.")
        return threshold
