"""An audit at the server: a model for every part of the patients, then estimates, and what each site is told alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from ....transforms.natural_order import natural_order
from ...audit.kind_names import SEGMENTATION_KINDS
from ...run.plain_values import finite
from ...run.records import RoundRecord
from ...seeding import derive_seed
from ..auto.answers import ChannelAnswer
from ..auto.channel_record import channel_record
from ..auto.decisions import SiteUndo, decide
from ..auto.outbound import ESTIMATE_CHANNEL
from ..auto.records import ChannelFindings, ChannelRecord, SiteChannelRecord
from ..fedavg.server import FedAvgServer
from ..views import Round
from .folds import fold_of_round
from .outbound import AUDIT_CASES, AUROC, CONCLUDE, FLAGGED, KEEP_JUDGE
from .records import AuditFindings, AuditRecord, KindShare
from .settings import AuditSettings


class AuditServer(FedAvgServer):
    """Trains the models that judge, asks for estimates after the last round, and tells each site what follows for it.

    Sites keep the model of every fold but the last (task ``keep_judge``), since each judges the patients that it has
    not learnt. After the last round they report their channels (``estimate_channel``) and score their cases
    (``audit_cases``), of which shares alone leave. At last every site is told by itself what is concluded
    (``conclude``).
    """

    settings: AuditSettings

    def __init__(self, settings: AuditSettings) -> None:
        super().__init__(settings)
        self._channel: ChannelRecord | None = None
        self._audit: AuditRecord | None = None
        self._telling: dict[str, Any] | None = None

    def stage(self, this_round: Round) -> str:
        """Return which part of the patients the round's model will judge."""
        return f"judge of part {self._fold(this_round.number) + 1} of {self.settings.folds}"

    def begins_anew(self, this_round: Round) -> bool:
        """With every part of the patients."""
        return this_round.number > 1 and self._fold(this_round.number) != self._fold(this_round.number - 1)

    def before_round(self, this_round: Round) -> None:
        """Let the sites keep the model of a finished fold."""
        if not self.begins_anew(this_round):
            return
        answers = this_round.ask(KEEP_JUDGE)
        if absent := sorted(set(this_round.num_samples) - set(answers), key=natural_order):
            this_round.warning(f"{', '.join(absent)}: no model was kept; the last one judges all patients there.")

    def message(self, this_round: Round) -> dict[str, Any]:
        """Return what is concluded of the one site that is being told; nothing else."""
        del this_round
        return {} if self._telling is None else {"conclude": self._telling}

    def after_rounds(self, this_round: Round) -> bool:
        """Ask for estimates and shares, and tell each site by itself what is concluded of it."""
        answers = {site: ChannelAnswer.of(fields) for site, fields in this_round.ask(ESTIMATE_CHANNEL).items()}
        if this_round.is_stopped():
            return False
        seed = derive_seed(self.settings.seed, this_round.number, "anchor")
        decisions = decide(answers, self.settings, seed=seed)
        record = channel_record(decisions, this_round.number + 1)
        channel = self._channel = record.model_copy(update={"decision": _decision(decisions.undo)})
        this_round.info(channel.decision)
        reported = this_round.ask(AUDIT_CASES)
        told = self._tell(this_round, channel, [site for site in reported if site in channel.sites])
        if this_round.is_stopped():
            return False
        self._audit = AuditRecord(
            kinds={site: _kinds(fields) for site, fields in reported.items()},
            patients={site: fields["num_patients"] for site, fields in reported.items()},
            # Where a pixel has no size, or one of a millimetre, both units say the same.
            units={site: "px" if answer.pixel_size == 1 else "mm" for site, answer in answers.items()},
            told=tuple(told),
        )
        return True

    def _tell(self, this_round: Round, channel: ChannelRecord, sites: Sequence[str]) -> list[str]:
        """Tell each site by itself; return those that have it."""
        told: list[str] = []
        for site in sites:
            self._telling = _of_site(channel, channel.sites[site])
            try:
                answers = this_round.ask(CONCLUDE, [site])
            finally:
                self._telling = None
            if this_round.is_stopped():
                break
            told += [one for one, fields in answers.items() if fields["has_concluded"]]
        return told

    def describe(self, this_round: Round) -> dict[str, Any]:
        """Return every estimate with evidence and thresholds, and the shares that sites reported."""
        del this_round
        channels = () if self._channel is None else (self._channel,)
        return ChannelFindings(channels=channels).plain() | AuditFindings(audit=self._audit).plain()

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take nothing back: what comes after the last round is done anew."""

    def _fold(self, number: int) -> int:
        return fold_of_round(number, self.settings.rounds_of_fold)


def _decision(undo: Mapping[str, SiteUndo]) -> str:
    """What `auto` would do."""
    sites = sorted((site for site, one in undo.items() if one), key=natural_order)
    if not sites:
        return f"jobs/auto would undo nothing at any of {len(undo)} sites: it would be federated averaging."
    return f"jobs/auto would undo what is established at {len(sites)} of {len(undo)} sites: {', '.join(sites)}."


def _kinds(fields: Mapping[str, Any]) -> dict[str, KindShare]:
    """What a site reported of each kind."""
    columns = zip(SEGMENTATION_KINDS, fields[FLAGGED], fields[AUROC], strict=True)
    return {kind: KindShare(**finite({"flagged": flagged, "auroc": auroc})) for kind, flagged, auroc in columns}


def _of_site(channel: ChannelRecord, site: SiteChannelRecord) -> dict[str, Any]:
    """What a site is told: its own parameters, and where zero lies."""
    return {
        "zero": dict(channel.zero),
        "parameters": {name: parameter.plain() for name, parameter in site.parameters.items()},
    }
