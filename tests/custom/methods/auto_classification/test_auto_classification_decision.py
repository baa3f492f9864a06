"""What noise levels prove: thresholds, doubts, and where the reference level is."""

import pytest

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


# Of a site with a level of 0.49 ± 0.04; the minimum effect is 0.05.
@pytest.mark.parametrize(
    ("later", "support", "size"),
    [
        pytest.param(level(0.12, width=0.13), GOOD, 0.25, id="not significant: the end of the interval"),
        pytest.param(level(0.04, width=0.02), GOOD, 0.06, id="below the minimum effect, its interval is not"),
        pytest.param(level(0.03, width=0.01), GOOD, None, id="contradicted"),
        pytest.param(level(0.12), GOOD, 0.12, id="confirmed again"),
        pytest.param(level(0.03, width=0.01, auroc=0.55), GOOD, 0.49, id="cannot tell"),
        pytest.param(level(0.12), Estimate(40, 0.1, 0.05, 0.2), 0.49, id="no support"),
        pytest.param(Estimate.unknown(), GOOD, 0.49, id="no estimate"),
    ],
)
def test_what_was_confirmed_stays_unless_it_is_contradicted(
    later: Estimate, support: Estimate, size: float | None
) -> None:
    before = decide({"a": level(0.49), "b": level(0.0)}, {"a": GOOD, "b": GOOD}, "zero", 0.05)
    result = decide({"a": later, "b": level(0.04)}, {"a": support, "b": GOOD}, "zero", 0.05, before=before)
    assert result.noisy == (set() if size is None else {"a"})
    assert "b" in result.not_noisy
    if size is not None:
        assert result.sites["a"].result.effect == pytest.approx(size)


def test_a_site_without_an_estimate_is_reported_so() -> None:
    decided = decide({"a": Estimate.unknown(), "b": level(0.4)}, {"a": Estimate.unknown(), "b": GOOD}, "zero", 0.05)
    assert decided.sites["a"].result.evidence == (Evidence(EvidenceCode.NO_ESTIMATE),)
    assert (decided.noisy, decided.not_noisy) == ({"b"}, set())
