"""What a site's claims count, by hand."""

import pytest

from fedannot.custom.aggregation.reported_counts import MAX_TOTAL_SAMPLES, ReportedCounts, claim_limit


def test_the_limits_of_all_sites_together_are_what_a_round_may_have():
    assert claim_limit(1) == MAX_TOTAL_SAMPLES == 16777216
    assert claim_limit(8) == 2097152
    assert all(count * claim_limit(count) <= MAX_TOTAL_SAMPLES for count in range(1, 300))
    with pytest.raises(ValueError, match="Expected at least one site"):
        claim_limit(0)


def test_later_claims_count_up_to_the_first():
    said = []
    claims = ReportedCounts(said.append)
    assert [claims.counted("a", claim, 100) for claim in (12, 10, 13, 13, 1000, 12)] == [12, 10, 12, 12, 12, 12]
    assert claims.first == {"a": 12}
    # Once for every claim that is too large.
    assert [text.split(" and claimed ")[0] for text in said] == ["a claims 13 samples", "a claims 1000 samples"]
    assert "claimed 12 at first, which counts" in said[0]


@pytest.mark.parametrize("claim", [0, -1, 101])
def test_a_first_claim_that_cannot_be_is_not_kept(claim):
    claims = ReportedCounts(lambda _: None)
    assert claims.counted("a", claim, 100) == claim
    assert claims.counted("a", 50, 100) == 50


def test_a_run_that_goes_on_remembers_what_was_claimed_first():
    claims = ReportedCounts(lambda _: None, {"a": 12})
    assert claims.counted("a", 10**6, 10**7) == 12
    assert claims.counted("b", 10**6, 10**7) == 10**6
