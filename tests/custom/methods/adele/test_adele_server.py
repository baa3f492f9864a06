"""ADELE at the server: the IoU of all sites, when classes are corrected, who is asked, and a restart."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from support.rounds import round_of

from fedannot.custom.methods.adele.outbound import ANNOTATED, PREDICTED, TRUE_POSITIVE
from fedannot.custom.methods.adele.server import CORRECTED_CLASSES, AdeleServer
from fedannot.custom.methods.adele.settings import AdeleSettings
from fedannot.custom.task_names import CORRECT_ANNOTATIONS, MEASURE_OVERLAP

SITES = ("a", "b", "c")
PIXELS = 10_000


def iou_at(round_number: int, c: float) -> float:
    return float(0.9 * (1 - np.exp(-round_number / c)))


class Run:
    """The rounds of a run in which the IoU of two classes is along curves with c = 2 and c = 5."""

    def __init__(self, server: AdeleServer | None = None, absent: Mapping[str, Collection[int]] | None = None):
        self.server = server or AdeleServer(AdeleSettings.model_validate({"rounds": 30, "network": {"num_classes": 2}}))
        self.absent, self.history, self.number = absent or {}, list[Any](), 0
        self.asked: dict[int, tuple[list[str], list[int]]] = {}
        self.measured: list[int] = []
        self.has: set[str] = set()
        self.said: list[str] = []
        self.silent: set[str] = set()

    def ask(self, task: str, sites: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
        there = [site for site in SITES if self.number not in self.absent.get(site, ())]
        if task == MEASURE_OVERLAP:
            assert sites is None
            self.measured.append(self.number)
            matched = [round(PIXELS * iou_at(self.number - 1, c)) for c in (2.0, 5.0)]
            counts = {TRUE_POSITIVE: matched, PREDICTED: matched, ANNOTATED: [PIXELS, PIXELS]}
            return {site: {"num_samples": 5} | (counts if site not in self.silent else {}) for site in there}
        assert task == CORRECT_ANNOTATIONS
        asked = sorted(set(sites or ()))
        self.asked[self.number] = asked, list(self.server.message(self.round())[CORRECTED_CLASSES])  # type: ignore[call-overload]
        self.has |= set(asked) & set(there)
        return {site: {"has_corrected": True} for site in asked if site in there}

    def round(self) -> Any:
        samples = dict.fromkeys(SITES, 10)
        return round_of(self.number, history=self.history, num_samples=samples, ask=self.ask, said=self.said)

    def until(self, last: int) -> "Run":
        for number in range(self.number + 1, last + 1):
            self.number = number
            self.server.before_round(self.round())
            there = [site for site in SITES if number not in self.absent.get(site, ())]
            self.history.append({"round": number, "sites": {s: {"has_corrected": s in self.has} for s in there}})
        return self


def test_each_class_is_corrected_once_when_its_own_curve_slows_down() -> None:
    """1 − c ln 0.1 is 5.6 of c = 2 and 12.5 of c = 5: the models after 6 and 13 rounds show it, before the next one."""
    run = Run().until(30)
    everyone = sorted(SITES)
    assert run.server.decided == {1: 7, 2: 14}
    assert run.asked == {7: (everyone, [1]), 14: (everyone, [1, 2])}
    # From the start model on, until the last class is decided on.
    assert run.measured == list(range(1, 15))
    assert np.allclose(run.server.ious[1], [iou_at(number, 5.0) for number in range(14)], atol=1e-4)
    assert run.server.describe(run.round()) == {
        "classes_corrected_before_round": {"1": 7, "2": 14},
        "corrected_classes": dict.fromkeys(SITES, 2),
    }
    assert [Run().until(number).server.stage(run.round()) for number in (6, 7)] == ["early learning", "corrected"]


def test_absent_sites_and_those_that_lost_their_corrections_are_asked_again() -> None:
    run = Run(absent={"b": range(6, 10)})
    run.until(12)
    assert run.asked == {7: (["a", "b", "c"], [1]), **{number: (["b"], [1]) for number in (8, 9, 10)}}
    run.has.discard("c")
    run.until(13)
    run.has.discard("c")
    assert run.asked.get(13) is None
    # Its training of round 13 says so.
    run.until(14)
    assert run.asked[14] == (["a", "b", "c"], [1, 2])
    assert any("c no longer has its corrected annotations" in text for text in run.said)


def test_sites_without_numbers_do_not_count_and_without_any_nothing_is_corrected() -> None:
    run = Run()
    run.silent = {"a", "b", "c"}
    run.until(20)
    assert (run.server.decided, run.asked, len(run.measured)) == ({}, {}, 20)
    one = Run()
    one.silent = {"a", "b"}
    assert one.until(7).server.decided == {1: 7}


def test_a_restored_server_goes_on_as_if_nothing_had_happened() -> None:
    whole, first = Run().until(20), Run().until(10)
    state = first.server.state()
    second = Run(AdeleServer(first.server.settings))
    second.server.restore(state, ())
    second.history, second.number, second.has = first.history, first.number, first.has
    second.until(20)
    assert second.server.state() == whole.server.state()
    assert second.asked == {14: whole.asked[14]}
    unknown = AdeleServer(first.server.settings)
    unknown.restore({}, ())
    assert unknown.state() == AdeleServer(first.server.settings).state()


def test_records_show_the_iou_of_the_classes_that_are_measured() -> None:
    run = Run()
    shown = {}
    for number in range(1, 16):
        shown[number] = run.until(number).server.record(run.round())
    assert shown[1] == {"training_iou": [0.0, 0.0], "mean_training_iou": 0.0}
    assert shown[7]["training_iou"][0] is not None
    assert shown[8]["training_iou"] == [None, run.server.ious[1][7]]
    assert shown[15] == {"training_iou": [None, None]}


def test_without_correction_nobody_is_asked() -> None:
    settings = {"rounds": 3, "correction": False, "scales": [1], "consistency_weight": 0.0}
    run = Run(AdeleServer(AdeleSettings.model_validate(settings))).until(3)
    assert (run.measured, run.asked, run.server.record(run.round())) == ([], {}, {})
    assert run.server.rounds_of_averaging == 3
