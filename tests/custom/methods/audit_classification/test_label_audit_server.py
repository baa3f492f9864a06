"""An audit of labels at the server: who is asked what, and what each site alone gets."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from support.rounds import round_of

from fedannot.custom.annotation_bias.estimate import Estimate, sent
from fedannot.custom.methods.audit_classification.outbound import OUTBOUND_FIELDS
from fedannot.custom.methods.audit_classification.server import AuditClassificationServer
from fedannot.custom.methods.audit_classification.settings import AuditClassificationSettings
from fedannot.custom.methods.auto_classification.outbound import NOISE_LEVEL, SUPPORT
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.task_names import AUDIT_LABELS, CONCLUDE, ESTIMATE_CONFUSION, KEEP_REFERENCE_MODEL

# By site: noise level, and fraction of the doubted labels in which look-alikes side with the model.
LEVELS = {"clean": (0.02, 0.9), "noisy": (0.3, 0.9), "strange": (0.3, 0.3)}
SETTINGS = {"rounds": 6, "folds": 2, "network": {"in_channels": 1, "num_classes": 3}}


def confusion(level: float, support: float) -> dict[str, Any]:
    return sent(NOISE_LEVEL, [Estimate(90, level, level - 0.03, level + 0.03, 1.0, 0.9)], calibrated=True) | sent(
        SUPPORT, [Estimate(30, support, support - 0.1, support + 0.1)], calibrated=False
    )


SHARES = {"num_patients": 90, "flagged_shares": [0.25], "kind_aurocs": [0.95]}


class Sites:
    """Answer the server's questions, and note what each is reported."""

    def __init__(self, deaf: Collection[str] = ()) -> None:
        self.deaf = set(deaf)
        self.asked: list[str] = []
        self.concluded: dict[str, Any] = {}
        self.server = AuditClassificationServer(AuditClassificationSettings.model_validate(SETTINGS))

    def __call__(
        self,
        task: str,
        sites: Collection[str] | None = None,
        own_messages: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[str, dict[str, Any]]:
        self.asked.append(task)
        assert self.server.message(round_of(6)) == {}
        if task == CONCLUDE:
            assert sites is not None
            assert own_messages is not None
            self.concluded |= {site: own_messages[site]["conclude"] for site in sites}
            return {site: {"has_concluded": True} for site in sites if site not in self.deaf}
        assert (sites, own_messages) == (None, None)
        answers = {KEEP_REFERENCE_MODEL: {"has_kept": True}, AUDIT_LABELS: SHARES}
        return {site: answers.get(task) or confusion(*level) for site, level in LEVELS.items() if site not in self.deaf}


def test_answers_are_what_is_declared() -> None:
    registry = OutboundRegistry(OUTBOUND_FIELDS)
    registry.check(ESTIMATE_CONFUSION, confusion(0.1, 0.9))
    registry.check(AUDIT_LABELS, SHARES)
    assert registry.refusal(AUDIT_LABELS, SHARES, 3) is None
    assert registry.refusal(AUDIT_LABELS, SHARES | {"flagged_shares": [0.2, 0.2]}, 3) is not None
    assert registry.refusal(AUDIT_LABELS, SHARES | {"flagged_shares": [1.2]}, 3) is not None


def test_each_site_gets_its_own_instruction_after_the_last_round() -> None:
    sites = Sites()
    last = round_of(6, ask=sites, said=[])
    assert sites.server.describe(last) == {"noise_levels": {}, "right_labels": None, "audit": None}
    assert sites.server.after_rounds(last)
    assert sites.asked == [ESTIMATE_CONFUSION, AUDIT_LABELS, CONCLUDE]
    concluded = {site: one["wrong_labels"] for site, one in sites.concluded.items()}
    assert {site: one["estimate"] for site, one in concluded.items()} == {"clean": 0.02, "noisy": 0.3, "strange": 0.3}
    assert {site: one["status"] for site, one in concluded.items()} == {
        "clean": "not_significant", "noisy": "confirmed", "strange": "unknown"
    }  # fmt: skip
    # Where look-alikes side with the labels the model may not know the images: it cannot be known.
    assert [item["code"] for item in concluded["strange"]["evidence"]] == ["no_support"]
    described = sites.server.describe(last)
    assert described["audit"] == {
        "kinds": {site: {"wrong_label": {"flagged": 0.25, "auroc": 0.95}} for site in LEVELS},
        "patients": dict.fromkeys(LEVELS, 90),
        "informed": ["clean", "noisy", "strange"],
    }
    assert described["noise_levels"] == concluded


def test_a_site_that_does_not_answer_gets_no_instruction_and_the_others_go_on() -> None:
    sites = Sites(deaf=["noisy"])
    last = round_of(6, ask=sites, said=[])
    assert sites.server.after_rounds(last)
    assert sorted(sites.concluded) == sites.server.describe(last)["audit"]["informed"] == ["clean", "strange"]


def test_a_stopped_run_concludes_nothing() -> None:
    sites = Sites()
    assert not sites.server.after_rounds(round_of(6, ask=sites, said=[], stopped=True))
    assert sites.concluded == {}


@pytest.mark.parametrize(
    ("number", "stage"), [(1, "reference model of part 1 of 2"), (4, "reference model of part 2 of 2")]
)
def test_half_of_the_rounds_train_the_predict_of_each_part(number: int, stage: str) -> None:
    assert Sites().server.stage(round_of(number)) == stage
