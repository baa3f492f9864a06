"""What noise levels prove: thresholds, doubts, and where the reference level is."""

from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode
from fedannot.custom.methods.auto_classification.decision import decide

GOOD = Estimate(40, 0.9, 0.8, 1.0)


def level(value: float, *, width: float = 0.04, slope: float = 1.0, auroc: float = 0.9) -> Estimate:
    return Estimate(150, value, value - width, value + width, slope, auroc)


def noisy(levels: dict[str, Estimate], supports: dict[str, Estimate] | None = None, neutral: str = "zero") -> set[str]:
    everywhere = dict.fromkeys(levels, GOOD) | (supports or {})
    return set(decide(levels, everywhere, neutral, 0.05).noisy)  # type: ignore[arg-type]


def test_sites_with_wrong_labels_are_confirmed_and_a_clean_one_is_not() -> None:
    assert noisy({"a": level(0.4), "b": level(0.2), "c": level(0.0, width=0.0)}) == {"a", "b"}


def test_all_sites_may_be_noisy_alike() -> None:
    assert noisy({"a": level(0.4), "b": level(0.4)}) == {"a", "b"}


def test_what_is_below_the_floor_or_not_significant_is_not_confirmed() -> None:
    assert noisy({"a": level(0.04, width=0.01), "b": level(0.1, width=0.1)}) == set()


def test_a_model_that_cannot_tell_injected_errors_establishes_nothing() -> None:
    assert (
        noisy({"a": level(0.4, auroc=0.55), "b": level(0.4, slope=0.4), "c": level(0.4, slope=float("nan"))}) == set()
    )


def test_where_samples_that_look_alike_side_with_the_labels_nothing_is_confirmed() -> None:
    supports = {"a": Estimate(40, 0.1, 0.05, 0.2), "b": Estimate(10, 0.6, 0.4, 0.8), "c": Estimate.unknown()}
    decided = decide({site: level(0.4) for site in "abcd"}, supports | {"d": GOOD}, "zero", 0.05)
    assert decided.noisy == {"d"}
    assert not decided.sites["a"].can_tell
    assert decided.sites["a"].result.evidence == (Evidence(EvidenceCode.NO_SUPPORT),)
    assert decided.not_noisy == set()


def test_support_does_not_matter_where_nothing_is_doubted() -> None:
    decided = decide({"a": level(0.0, width=0.0)}, {"a": Estimate.unknown()}, "zero", 0.05)
    assert decided.not_noisy == {"a"}


def test_with_the_least_noisy_site_as_neutral_only_differences_count() -> None:
    assert noisy({"a": level(0.4), "b": level(0.4)}, neutral="least_noisy") == set()
    assert noisy({"a": level(0.4), "b": level(0.1)}, neutral="least_noisy") == {"a"}


def test_a_site_without_an_estimate_is_reported_so() -> None:
    decided = decide({"a": Estimate.unknown(), "b": level(0.4)}, {"a": Estimate.unknown(), "b": GOOD}, "zero", 0.05)
    assert decided.sites["a"].result.evidence == (Evidence(EvidenceCode.NO_ESTIMATE),)
    assert (decided.noisy, decided.not_noisy) == ({"b"}, set())
