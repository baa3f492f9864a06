"""`auto` at the server: estimates of how sites annotate, and what each of them is asked to correct."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict

from ....transforms.strict_files import JsonObject
from ...aggregation.weighting import LayerWeights
from ...annotation_bias.parameters import ParameterKind
from ...corrections.kinds import Correction
from ...interface.views import Round
from ...records.round_records import RoundRecord
from ...seeding import derive_seed
from ...settings import SettingsError
from ...task_names import CORRECT_ANNOTATION_BIAS, ESTIMATE_ANNOTATION_BIAS
from ..fedavg.server import FedAvgServer
from .answers import BiasReport
from .bias_record import bias_record
from .decisions import decide, detected_fraction
from .group_votes import GroupVotes
from .image_estimates import ImageEstimates, ImageState
from .outbound import MOVED_PATIENTS, NUM_SAMPLES
from .records import BiasFindings, BiasRecord, RollbackFindings
from .rollback_check import RollbackCheck, RollbackState
from .server_reference import ServerReference
from .settings import AutoSettings
from .weights import completeness_weights


class AutoState(TypedDict):
    """What is kept over a restart: estimates as plain records, sites that are still to be asked, since when others
    correct, and what images say.
    """

    channels: list[JsonObject]
    due: list[str]
    corrected: dict[str, int]
    shadow: RollbackState
    has_taken_back: bool
    images: ImageState


class AutoServer(FedAvgServer):
    """Measures how each site annotates, and lets sites correct what is confirmed.

    Before the first round sites report their boundary profiles (tasks ``measure_boundary_profile`` and
    ``measure_profile_error``), and correct the boundary biases that images show
    (:func:`.image_decisions.decide_by_images`). A site that joins later is asked after its first round.

    Rounds 1..T are federated averaging. Then every site reports its annotation bias (task ``estimate_annotation_bias``;
    nothing per case). The server chooses the reference level and tests all sites, each kind of parameter by itself. It
    instructs each site with a confirmed effect to correct it (task ``correct_annotation_bias``); no other site learns
    of that. The rest is federated averaging, of all data. If nothing is confirmed, it is federated averaging bit for
    bit.

    The estimate is made again, in equal steps through the remaining rounds; what is corrected follows it. What was
    confirmed stays unless it contradicts (:mod:`fedannot.custom.annotation_bias.hysteresis`). If the warm-up model does
    not find what is annotated, its prediction would be noise: the warm-up goes on, a bounded number of times.

    For some rounds after something was done the sites compare the model in use with one without it
    (:class:`RollbackCheck`). Where that is better beyond doubt, everything is rolled back at all sites for good.

    Raises:
        SettingsError: if models are compared and the rule of aggregation has no second average of them that is of three
            sites or more in every coordinate.
    """

    settings: AutoSettings

    def __init__(self, settings: AutoSettings) -> None:
        super().__init__(settings)
        if settings.rollback_rounds and settings.aggregation.waits:
            raise SettingsError(
                f"settings.conf: key 'aggregation.rule' is {settings.aggregation.rule!r}, expected 'mean' or "
                "'trimmed_mean' where 'rollback_rounds' is above 0: two such averages together would tell sites the "
                "updates of single ones. Set 'rollback_rounds' to 0, or another rule."
            )
        self.estimates: list[BiasRecord] = []
        self._pending: dict[str, tuple[Correction, ...]] = {}
        self._corrected: dict[str, int] = {}
        self._rollback = RollbackCheck(settings, settings.rollback_rounds)
        self._is_rolled_back = False
        self._images = ImageEstimates(settings)

    # --- the course of a round

    @property
    def rounds_of_averaging(self) -> int:
        """The warm-up; none where sites may correct before it."""
        return 0 if self.settings.asks_images else self.settings.warmup_rounds

    def stage(self, this_round: Round) -> str:
        """Return ``warm-up``, ``federated averaging``, ``weighted`` or ``corrected``."""
        if self._asked:
            return "corrected"
        if not self._of_model and self.settings.asks_model:
            return "warm-up"
        return "federated averaging" if self.weights(this_round) is None else "weighted"

    def before_round(self, this_round: Round) -> None:
        """Estimate when it is time to, and ask sites to correct, or to revert what they corrected."""
        if self._rollback.has_vetoed and not self._is_rolled_back:
            self._roll_back()
        if not self._is_rolled_back:
            self._ask_images(this_round)
        made = len(self.estimates)
        if self._is_time_to_estimate(this_round.number):
            self._estimate(this_round)
        if self.estimates and len(self.estimates) == made:
            self._note_lost(this_round)
        self._ask_to_correct(this_round)

    def weights(self, this_round: Round) -> LayerWeights | None:
        """Return weights by completeness, where the settings ask for them and a site is confirmed to miss objects."""
        if not self.estimates or self.settings.treatment == "none" or self.settings.weighting == "quantity":
            return None
        if self._is_rolled_back:
            return None
        missing = _missing_shares(self.estimates[-1], self.settings.network.num_classes)
        if not missing:
            return None
        return completeness_weights(this_round.num_samples, missing, this_round.blocks)

    def message(self, this_round: Round) -> dict[str, int]:
        """Return what all sites may know of round and model."""
        del this_round
        return self._rollback.message

    @property
    def _asked(self) -> dict[str, tuple[Correction, ...]]:
        """The corrections of each site by the last estimate, without the sites that have none."""
        if not self.estimates or self._is_rolled_back:
            return {}
        return {site: record.corrections for site, record in self.estimates[-1].sites.items() if record.corrections}

    # --- the rollback check

    def second_average_without(self, this_round: Round) -> Collection[str] | None:
        """Return an empty set if a second average by sample counts is needed, because the weights differ; else None.

        It costs nothing before anything is corrected, and nothing when the rollback check is over.
        """
        weighs = self.weights(this_round) is not None
        # Before the first round there was no model to compare with.
        corrects = bool(self._of_model) and bool(set(self._asked) & set(self._corrected))
        return frozenset() if self._rollback.begin(this_round, corrects=corrects, weighs=weighs) else None

    def after_training(self, this_round: Round) -> None:
        """Let sites compare the models; what follows is done before the next round."""
        if self.estimates:
            of_sites = {self._images.site_of(name): True for name in self.estimates[-1].sites}
            of_sites |= {self._images.site_of(name): False for name in self._deviating}
            self._rollback.compare(this_round, [site for site, may in of_sites.items() if may])

    @property
    def _deviating(self) -> list[str]:
        """Sites, or groups of annotators, of which anything is confirmed."""
        return [name for name, of in self.estimates[-1].sites.items() if of.deviates]

    def _roll_back(self) -> None:
        """Ask every site that has corrected something to correct nothing."""
        self.estimates[-1] = self._with_rounds(self.estimates[-1])
        self._pending = dict.fromkeys({*self._corrected, *self._pending}, ())
        self._corrected, self._is_rolled_back = {}, True

    # --- estimates

    @property
    def _of_model(self) -> list[BiasRecord]:
        """The estimates for which the model was asked, too."""
        return [record for record in self.estimates if not record.is_of_images]

    def _ask_images(self, this_round: Round) -> None:
        """Estimate boundary biases from images, of all sites or of those that have joined."""
        record = self._images.estimate(this_round)
        if record is None:
            return
        # What the model has said of a site is not less than what images say; both count with the next estimate.
        new = {
            site: of for site, of in record.sites.items() if not self.estimates or site not in self.estimates[-1].sites
        }
        if self.estimates:
            self.estimates[-1] = self.estimates[-1].with_sites(record)
        else:
            self.estimates.append(record)
        self._pending |= {site: of.corrections for site, of in new.items() if of.corrections}
        corrected = sum(bool(of.corrections) for of in new.values())
        this_round.info(f"Boundary profile: {corrected} of {len(new)} {self._noun} correct.")
        for site, patients in record.moved_masks.items():
            this_round.info(f"{site} has moved all its masks back ({patients} patients).")

    def _is_time_to_estimate(self, number: int) -> bool:
        if self._is_rolled_back or not self.settings.asks_model:
            return False
        if not self._of_model:
            return number > self.settings.warmup_rounds
        first, made = self._of_model[0].before_round, len(self._of_model)
        due = first + made * (self.settings.rounds + 1 - first) // self.settings.estimates
        return made < self.settings.estimates and number >= max(due, self.estimates[-1].before_round + 1)

    def _estimate(self, this_round: Round) -> None:
        answers = self._reports(this_round)
        if this_round.is_stopped() or self._is_too_early(this_round, answers):
            return
        seed = derive_seed(self.settings.seed, this_round.number, "anchor")
        reviewed = this_round.reviewed()
        server = None if reviewed is None else ServerReference.of(*reviewed, self.settings, seed=seed)
        last = self._with_rounds(self.estimates[-1]) if self.estimates else None
        decisions = decide(
            answers,
            self.settings,
            seed=seed,
            server=server,
            before=last,
            profiles=self._images.profiles,
            uses_model=self.settings.boundary_evidence == "both",
            groups=self._votes,
        )
        before = self._asked
        record = bias_record(decisions, this_round.number, profiles=self._images.profiles)
        absent = {} if last is None else {site: of for site, of in last.sites.items() if site not in record.sites}
        if self.estimates:
            self.estimates[-1] = self._with_rounds(self.estimates[-1])
        # Who has not answered goes on with what it was asked.
        self._corrected = {site: number for site, number in self._corrected.items() if site in absent}
        self._pending = {site: asked for site, asked in self._pending.items() if site in absent}
        self._pending |= {site: asked for site, asked in decisions.corrections.items() if asked or site in before}
        record = record.with_moved_masks({} if last is None else last.moved_masks)
        groups = {"groups": dict(self._images.groups)} if self._images.groups else {}
        self.estimates.append(record.model_copy(update={"sites": absent | record.sites} | groups))
        corrected = len(record.decision.corrected)
        this_round.info(
            f"Annotation bias: {record.decision.outcome}; {corrected} of {len(record.sites)} {self._noun} correct."
        )

    def _reports(self, this_round: Round) -> dict[str, BiasReport]:
        """What sites report; by annotator what groups do, without the rest of a site where there is none."""
        if not self.settings.is_by_annotator:
            answers = this_round.ask(ESTIMATE_ANNOTATION_BIAS)
        else:
            every = self._images.by_annotator(this_round)(ESTIMATE_ANNOTATION_BIAS)
            answers = {name: fields for name, fields in every.items() if fields[NUM_SAMPLES] > 0}
        return {name: BiasReport.of(fields) for name, fields in answers.items()}

    def _is_too_early(self, this_round: Round, answers: Mapping[str, BiasReport]) -> bool:
        share = detected_fraction(answers, self._votes)
        extra_rounds = this_round.number - 1 - self.settings.warmup_rounds
        is_fit = share >= self.settings.min_predicted_fraction
        if self._of_model or is_fit or extra_rounds >= self.settings.max_extra_warmup_rounds:
            return False
        this_round.warning(
            f"The warm-up model finds what is annotated in only {share:.0%} of the annotated patients (expected at "
            f"least {self.settings.min_predicted_fraction:.0%}), so its prediction would be noise: one more warm-up "
            f"round."
        )
        return True

    def _ask_to_correct(self, this_round: Round) -> None:
        """Ask sites to correct, each its own."""
        if not self._pending:
            return
        by_site: dict[str, list[str]] = {}
        for name in self._pending:
            by_site.setdefault(self._images.site_of(name), []).append(name)
        messages = {site: self._message_of(site, names) for site, names in by_site.items()}
        for site, answer in this_round.ask(CORRECT_ANNOTATION_BIAS, sorted(messages), own_messages=messages).items():
            if answer.get("has_undone"):
                for name in by_site[site]:
                    del self._pending[name]
                    self._corrected[name] = this_round.number

    @property
    def _votes(self) -> GroupVotes:
        return GroupVotes({name: group.site for name, group in self._images.groups.items()})

    @property
    def _noun(self) -> str:
        """Who corrects, for the log."""
        return "groups of annotators" if self.settings.is_by_annotator else "sites"

    def _message_of(self, site: str, names: Sequence[str]) -> JsonObject:
        """What a site is asked to correct: as a whole, or by its annotators, of whom all are named at once."""
        if not self.settings.is_by_annotator:
            return {"corrections": _plain(self._pending[names[0]])}
        asked = {**self._asked, **self._pending}
        groups = self._images.groups
        own = {name: of for name, of in asked.items() if name in groups and groups[name].site == site}
        return {"corrections": [], "by_annotator": {str(groups[name].number): _plain(of) for name, of in own.items()}}

    def _note_lost(self, this_round: Round) -> None:
        """Ask a site again that has trained on its given annotations all the same."""
        if not this_round.history:
            return
        moved = self.estimates[-1].moved_masks
        for site, report in this_round.history[-1].sites.items():
            names = {name for name in self._corrected if self._images.site_of(name) == site}
            has_lost = bool(names) and not report.extra.get("has_undone", False)
            if has_lost or (site in moved and MOVED_PATIENTS not in report.extra):
                this_round.warning(f"{site} no longer has its corrections; it is asked again.")
                for name in names or {site}:
                    self._corrected.pop(name, None)
                    self._pending[name] = self._asked.get(name, ())

    # --- state

    def state(self) -> AutoState:
        """Return estimates and what was asked as plain values."""
        return {
            "channels": [record.plain() for record in self.estimates],
            "due": sorted(self._pending),
            "corrected": dict(self._corrected),
            "shadow": self._rollback.state(),
            "has_taken_back": self._is_rolled_back,
            "images": self._images.state(),
        }

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take back estimates and what was asked."""
        del history
        if "shadow" in state:
            self._rollback.restore(state["shadow"])
        if "images" in state:
            self._images.restore(state["images"])
        self._is_rolled_back = state.get("has_taken_back", False)
        self.estimates = [BiasRecord.model_validate(record) for record in state.get("channels", [])]
        asked = self._asked
        self._pending = {site: asked.get(site, ()) for site in state.get("due", [])}
        self._corrected = dict(state.get("corrected", state.get("undone", {})))

    def describe(self, this_round: Round) -> JsonObject:
        """Return every estimate with evidence, thresholds and decisions, and what each site has corrected."""
        del this_round
        added = RollbackFindings(rollback=self._rollback.record).plain()
        if not self.estimates:
            return added | BiasFindings(channels=()).plain()
        last = self.estimates[-1] if self._is_rolled_back else self._with_rounds(self.estimates[-1])
        estimates = (*self.estimates[:-1], last)
        return added | BiasFindings(channels=estimates).plain()

    def _with_rounds(self, last: BiasRecord) -> BiasRecord:
        """The last estimate, with the rounds before which sites have made its corrections."""
        sites = {
            site: record.model_copy(update={"corrected_before_round": self._corrected.get(site)})
            for site, record in last.sites.items()
        }
        return last.model_copy(update={"sites": sites})


def _plain(corrections: Sequence[Correction]) -> list[JsonObject]:
    return [item.model_dump(mode="json") for item in corrections]


def _missing_shares(record: BiasRecord, num_classes: int) -> dict[str, float]:
    """The fraction of objects that each site leaves out, the mean over classes; sites without any are left out."""
    shares = {
        site: sum(
            one.effect or 0.0
            for key, one in found.parameters.items()
            if one.is_confirmed and key.kind is ParameterKind.MISSING
        )
        / num_classes
        for site, found in record.sites.items()
    }
    return {site: share for site, share in shares.items() if share > 0}
