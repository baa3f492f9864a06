"""An audit at the server: a model for every part of the patients, then estimates, and what each site alone gets."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from ....transforms.strict_files import JsonObject
from ...audit.kind_names import SEGMENTATION_KINDS
from ...interface.views import Round
from ...records.round_records import RoundRecord
from ...seeding import derive_seed
from ...task_names import AUDIT_CASES, ESTIMATE_ANNOTATION_BIAS
from ..auto.answers import BiasReport, unit_of
from ..auto.bias_record import bias_record
from ..auto.decisions import decide
from ..auto.records import BiasFindings, BiasRecord
from .folds_server import FoldsServer
from .records import AuditFindings, AuditRecord
from .settings import AuditSettings


class AuditServer(FoldsServer):
    """Trains the reference models, asks for estimates after the last round, and tells each site what follows for it.

    Sites keep the model of every fold but the last (task ``keep_reference_model``), since each predicts the patients
    that it has not learnt. After the last round they report their annotation bias (``estimate_annotation_bias``) and
    score their cases (``audit_cases``), of which fractions alone leave. At last every site alone learns what is
    concluded (``conclude``).
    """

    settings: AuditSettings

    def __init__(self, settings: AuditSettings) -> None:
        super().__init__(settings)
        self._channel: BiasRecord | None = None
        self._audit: AuditRecord | None = None

    def after_rounds(self, this_round: Round) -> bool:
        """Ask for estimates and shares, and tell each site by itself what is concluded of it."""
        answers = {site: BiasReport.of(fields) for site, fields in this_round.ask(ESTIMATE_ANNOTATION_BIAS).items()}
        if this_round.is_stopped():
            return False
        seed = derive_seed(self.settings.seed, this_round.number, "anchor")
        decisions = decide(answers, self.settings, seed=seed)
        channel = self._channel = bias_record(decisions, this_round.number + 1, is_applied=False)
        this_round.info(f"Annotation bias: {channel.decision.outcome} at {len(channel.sites)} sites.")
        reported = this_round.ask(AUDIT_CASES)
        informed = self.tell(
            this_round,
            {site: _of_site(channel, site) for site in reported if site in channel.sites},
        )
        if this_round.is_stopped():
            return False
        units = {site: unit_of(answer.pixel_size) for site, answer in answers.items()}
        self._audit = AuditRecord.of(reported, SEGMENTATION_KINDS, informed, units, is_fit=decisions.unfit is None)
        return True

    def describe(self, this_round: Round) -> JsonObject:
        """Return every estimate with evidence and thresholds, and the shares that sites reported."""
        del this_round
        channels = () if self._channel is None else (self._channel,)
        return BiasFindings(channels=channels).plain() | AuditFindings(audit=self._audit).plain()

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take nothing back: what comes after the last round is done again."""


class SiteConclusions(TypedDict):
    """What a site gets: reference levels by label, and its own parameters by their keys, as plain records."""

    reference_levels: dict[str, JsonObject]
    parameters: dict[str, JsonObject]


def _of_site(channel: BiasRecord, site: str) -> SiteConclusions:
    """What a site gets: its own parameters, and where the reference level is, without the names of others."""
    levels = {
        str(label): level.without_names().plain()
        for label, level in channel.reference_levels.items()
        if level is not None
    }
    parameters = {str(key): parameter.plain() for key, parameter in channel.sites[site].parameters.items()}
    return {"reference_levels": levels, "parameters": parameters}
