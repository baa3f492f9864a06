"""An audit of class labels at the server: noise levels of all sites, and what each site alone gets."""

from collections.abc import Mapping, Sequence
from typing import Any

from ....transforms.strict_files import JsonObject
from ...annotation_bias.estimate import received
from ...annotation_bias.estimate_record import ParameterRecord
from ...annotation_bias.statuses import Evidence
from ...audit.kind_names import CLASSIFICATION_KINDS
from ...interface.views import Round
from ...records.round_records import RoundRecord
from ...task_names import AUDIT_LABELS, ESTIMATE_CONFUSION
from ..audit.folds_server import FoldsServer
from ..audit.records import AuditRecord
from ..auto_classification.decision import Decision, decide
from ..auto_classification.outbound import NOISE_LEVEL, SUPPORT
from .records import LabelAuditFindings, ReportedLabels
from .settings import AuditClassificationSettings


class AuditClassificationServer(FoldsServer):
    """Trains the reference models, asks for noise levels after the last round, and tells each site what follows.

    After the last round sites report their noise levels with interval, error injection and support
    (``estimate_confusion``) and score their labels (``audit_labels``), of which shares leave, and figures of annotators
    if the job asks for them. At last every site alone learns what is concluded (``conclude``).
    """

    settings: AuditClassificationSettings

    def __init__(self, settings: AuditClassificationSettings) -> None:
        super().__init__(settings)
        self._noise_levels: dict[str, ParameterRecord] = {}
        self._right_labels: Evidence | None = None
        self._audit: AuditRecord | None = None
        self._annotators: dict[str, ReportedLabels] = {}

    def after_rounds(self, this_round: Round) -> bool:
        """Ask for noise levels and shares, and tell each site by itself what is concluded of it."""
        answers = this_round.ask(ESTIMATE_CONFUSION)
        if this_round.is_stopped():
            return False
        decision = _decided(answers, self.settings.floor)
        self._noise_levels = {
            site: ParameterRecord.of(one.estimate, one.result) for site, one in decision.sites.items()
        }
        self._right_labels = decision.right_labels
        for site, one in decision.sites.items():
            this_round.info(f"Noise level of {site}: {one.result.status}")
        reported = this_round.ask(AUDIT_LABELS)
        concluded = {
            site: {"wrong_labels": self._noise_levels[site].plain()} for site in reported if site in self._noise_levels
        }
        informed = self.tell(this_round, concluded)
        if this_round.is_stopped():
            return False
        self._audit = AuditRecord.of(reported, CLASSIFICATION_KINDS, informed)
        labels = {site: ReportedLabels.of(fields) for site, fields in sorted(reported.items())}
        self._annotators = {site: one for site, one in labels.items() if one is not None}
        return True

    def describe(self, this_round: Round) -> JsonObject:
        """Return every noise level with evidence, and the shares that sites reported."""
        del this_round
        findings = LabelAuditFindings(
            noise_levels=self._noise_levels, right_labels=self._right_labels, audit=self._audit
        )
        if self._annotators:
            findings = findings.model_copy(update={"annotators": self._annotators})
        return findings.plain()

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take nothing back: what comes after the last round is done again."""


def _decided(answers: Mapping[str, Mapping[str, Any]], floor: float) -> Decision:
    estimates, supports = (
        {site: received(name, fields)[0] for site, fields in answers.items()} for name in (NOISE_LEVEL, SUPPORT)
    )
    return decide(estimates, supports, "zero", floor)
