"""An audit at the server: when models restarts, who is asked what, and what each site alone gets."""

import math

import pytest
from support.rounds import round_of

from fedannot.custom.annotation_bias.estimate import Estimate, sent
from fedannot.custom.annotation_bias.feature_names import FEATURES
from fedannot.custom.audit.kind_names import SEGMENTATION_KINDS
from fedannot.custom.methods.audit.outbound import OUTBOUND_FIELDS
from fedannot.custom.methods.audit.server import AuditServer
from fedannot.custom.methods.audit.settings import AuditSettings
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.task_names import AUDIT_CASES, CONCLUDE, ESTIMATE_ANNOTATION_BIAS, KEEP_REFERENCE_MODEL

OFFSETS = {"site-1": -4.0, "site-2": -4.6, "site-3": -5.0, "site-4": -4.2, "site-5": 4.4, "site-6": 5.0}


def estimate(name, value, patients=12, calibrated=True):
    fields = {name: [value], f"{name}_low": [value - 0.3], f"{name}_high": [value + 0.3]}
    fields |= {f"{name}_patients": [patients]}
    return fields | ({f"{name}_slope": [1.0], f"{name}_auroc": [0.9]} if calibrated else {})


def channel(offset):
    return {
        "num_samples": 12, "num_patients": 12, "pixel_size": 1.0, "annotated_patients": [12],
        "image_means": [0.0] * len(FEATURES), "image_deviations": [1.0] * len(FEATURES),
        **estimate("offset", offset), **estimate("edge_offset", 0.0, calibrated=False),
        **estimate("reference_offset", math.nan, 0, calibrated=False),
        **estimate("reviewed_offset", math.nan, 0, calibrated=False), **estimate("completeness", 0.9),
        **sent("swapped", [Estimate.unknown()], calibrated=True),
        "exchanged_part": [math.nan],
    }  # fmt: skip


def shares(flagged=0.25):
    count = len(SEGMENTATION_KINDS)
    return {"num_patients": 12, "flagged_shares": [flagged] * count, "kind_aurocs": [0.9, *[math.nan] * (count - 1)]}


class Sites:
    """Answer the server's questions, and note what each is reported."""

    def __init__(self, *, deaf=(), stopped=False):
        self.deaf, self.stopped = set(deaf), stopped
        self.asked, self.concluded, self.heard = [], {}, []
        self.server, self.round = None, None

    def __call__(self, task, sites=None, own_messages=None):
        self.asked.append(task)
        assert self.server.message(self.round) == {}
        if task == CONCLUDE:
            assert set(own_messages) == set(sites)
            self.concluded |= {site: own_messages[site]["conclude"] for site in sites}
            return {site: {"has_concluded": True} for site in sites if site not in self.deaf}
        assert (sites, own_messages) == (None, None)
        answers = {
            KEEP_REFERENCE_MODEL: lambda _: {"has_kept": True},
            ESTIMATE_ANNOTATION_BIAS: channel,
            AUDIT_CASES: lambda _: shares(),
        }
        return {site: answers[task](offset) for site, offset in OFFSETS.items() if site not in self.deaf}


def run(sites, **settings):
    server = AuditServer(AuditSettings.model_validate({"rounds": 6, "folds": 2} | settings))
    sites.server, said, began = server, [], []
    for number in range(1, 7):
        sites.round = round_of(number, ask=sites, said=said, num_samples=dict.fromkeys(OFFSETS, 12))
        server.before_round(sites.round)
        began += [number] if server.restarts(sites.round) else []
    return server, began, said


def test_answers_are_what_is_declared():
    registry = OutboundRegistry(OUTBOUND_FIELDS)
    registry.check(ESTIMATE_ANNOTATION_BIAS, channel(0.0))
    registry.check(AUDIT_CASES, shares())
    assert registry.refusal(AUDIT_CASES, shares(), 1) is None
    assert registry.refusal(AUDIT_CASES, shares(flagged=1.5), 1) is not None


@pytest.mark.parametrize(("folds", "restarted"), [(1, []), (2, [4]), (3, [3, 5]), (5, None)])
def test_a_model_restarts_for_every_part_after_the_last_was_kept(folds, restarted):
    sites = Sites()
    if restarted is None:
        with pytest.raises(ValueError, match="folds cannot share"):
            run(sites, folds=folds)
        return
    _, began, _ = run(sites, folds=folds)
    assert began == restarted
    assert sites.asked == [KEEP_REFERENCE_MODEL] * len(restarted)


def test_each_site_gets_its_own_instruction_after_the_last_round():
    sites = Sites()
    server, _, _ = run(sites)
    assert server.describe(sites.round) == {"channels": [], "audit": None}
    assert server.after_rounds(sites.round)
    assert sites.asked[1:3] == [ESTIMATE_ANNOTATION_BIAS, AUDIT_CASES]
    zero = (sum(list(OFFSETS.values())[:4]) / 4 + 4.7) / 2
    for site, offset in OFFSETS.items():
        assert sites.concluded[site]["parameters"]["offset 1"]["effect"] == pytest.approx(offset - zero)
    # What one site is reported names no other.
    others = {
        site: [other for other in OFFSETS if other != site and other in str(concluded)]
        for site, concluded in sites.concluded.items()
    }
    assert not any(others.values()), others
    described = server.describe(sites.round)
    assert described["audit"]["informed"] == sorted(OFFSETS)
    assert described["audit"]["kinds"]["site-1"]["boundary"] == {"flagged": 0.25, "auroc": 0.9}
    assert described["audit"]["kinds"]["site-1"]["missing"] == {"flagged": 0.25, "auroc": None}
    level, decision = described["channels"][0]["reference_levels"]["1"], described["channels"][0]["decision"]
    assert level["groups"] == [["site-5", "site-6"], ["site-1", "site-2", "site-3", "site-4"]]
    assert (decision["outcome"], decision["is_applied"], len(decision["corrected"])) == ("corrected", False, 6)


def test_a_site_that_does_not_answer_is_named_and_the_others_go_on():
    sites = Sites(deaf=["site-3"])
    server, _, said = run(sites)
    server.after_rounds(sites.round)
    assert any("site-3: no model was kept" in text for text in said)
    described = server.describe(sites.round)
    assert described["audit"]["informed"] == sorted(set(OFFSETS) - {"site-3"})
    assert "site-3" not in described["channels"][0]["sites"]


def test_a_stopped_run_concludes_nothing():
    sites = Sites()
    server, _, _ = run(sites)
    stopped = round_of(6, ask=sites, said=[], stopped=True)
    sites.round = stopped
    assert not server.after_rounds(stopped)
    assert sites.concluded == {}
