"""An audit at the server: a model for every part of the patients, then estimates, and what each site is told alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from ....transforms.natural_order import natural_order
from ...audit.kind_names import SEGMENTATION_KINDS
from ...channel.anchor import Anchor
from ...interface.views import Round
from ...records.round_records import RoundRecord
from ...seeding import derive_seed
from ...task_names import AUDIT_CASES, ESTIMATE_CHANNEL
from ..auto.answers import ChannelAnswer, unit_of
from ..auto.channel_record import channel_record, why_left
from ..auto.decisions import Decisions, decide
from ..auto.records import ChannelFindings, ChannelRecord, SiteChannelRecord
from .folds_server import FoldsServer
from .records import AuditFindings, AuditRecord
from .settings import AuditSettings


class AuditServer(FoldsServer):
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

    def after_rounds(self, this_round: Round) -> bool:
        """Ask for estimates and shares, and tell each site by itself what is concluded of it."""
        answers = {site: ChannelAnswer.of(fields) for site, fields in this_round.ask(ESTIMATE_CHANNEL).items()}
        if this_round.is_stopped():
            return False
        seed = derive_seed(self.settings.seed, this_round.number, "anchor")
        decisions = decide(answers, self.settings, seed=seed)
        record = channel_record(decisions, this_round.number + 1)
        channel = self._channel = record.model_copy(update={"decision": _decision(decisions)})
        this_round.info(channel.decision)
        reported = this_round.ask(AUDIT_CASES)
        told = self.tell(
            this_round,
            {site: _of_site(decisions.anchors, channel.sites[site]) for site in reported if site in channel.sites},
        )
        if this_round.is_stopped():
            return False
        units = {site: unit_of(answer.pixel_size) for site, answer in answers.items()}
        self._audit = AuditRecord.of(reported, SEGMENTATION_KINDS, told, units, is_fit=decisions.unfit is None)
        return True

    def describe(self, this_round: Round) -> dict[str, Any]:
        """Return every estimate with evidence and thresholds, and the shares that sites reported."""
        del this_round
        channels = () if self._channel is None else (self._channel,)
        return ChannelFindings(channels=channels).plain() | AuditFindings(audit=self._audit).plain()

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take nothing back: what comes after the last round is done anew."""


def _decision(decisions: Decisions) -> str:
    """What `auto` would do."""
    corrections = decisions.corrections
    if decisions.unfit is not None:
        return f"Nothing could be judged: {decisions.unfit}. More rounds, or more epochs in each, may help."
    sites = sorted((site for site, asked in corrections.items() if asked), key=natural_order)
    if sites:
        of_sites = f"{len(sites)} of {len(corrections)} sites: {', '.join(sites)}"
        return f"jobs/auto would correct what is established at {of_sites}."
    if decisions.harmless:
        return f"jobs/auto would be federated averaging. {why_left(decisions)}"
    return f"jobs/auto would correct nothing at any of {len(corrections)} sites: it would be federated averaging."


def _of_site(anchors: Sequence[Anchor | None], site: SiteChannelRecord) -> dict[str, Any]:
    """What a site is told: its own parameters, and where zero lies, without the names of others."""
    return {
        "zero": {str(label): anchor.sentence for label, anchor in enumerate(anchors, start=1) if anchor is not None},
        "parameters": {name: parameter.plain() for name, parameter in site.parameters.items()},
    }
