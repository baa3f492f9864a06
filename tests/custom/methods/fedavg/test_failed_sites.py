"""Sites that give no usable result come after the others, in all methods that ask some of them."""

from collections.abc import Callable
from typing import Any

import pytest
from support.rounds import as_record, round_of

from fedannot.custom.interface.method import ServerMethod
from fedannot.custom.methods.fedavg.averaging_server import AveragingServer
from fedannot.custom.methods.fedavg.averaging_settings import SegmentationAveragingSettings
from fedannot.custom.methods.fedavg.failed_sites import failed_sites
from fedannot.custom.methods.fedcorr.server import FedCorrServer
from fedannot.custom.methods.fedcorr.settings import FedCorrSettings
from fedannot.custom.methods.fedselect.server import FedSelectServer
from fedannot.custom.methods.fedselect.settings import FedSelectSettings

MOST_FAILED = 3


def asked(number: int, sites: str, gave: str) -> Any:
    return as_record({"round": number, "asked": list(sites), "sites": {site: {} for site in gave}})


def test_the_last_request_of_five_rounds_counts() -> None:
    history = [asked(1, "abc", "ab"), asked(2, "ab", "a"), asked(3, "bd", "bd"), asked(4, "ae", "a")]
    assert failed_sites(history, "abcde") == {"c", "e"}
    assert failed_sites(history, "abd") == set()
    # After five rounds a site is asked as before.
    later = [asked(number, "ab", "ab") for number in (5, 6)]
    assert failed_sites(history + later, "abcde") == {"e"}
    # Methods that ask all sites do not say so.
    assert failed_sites([as_record({"round": 1, "sites": {}})], "abc") == set()


def sampling(**changes: Any) -> ServerMethod:
    return AveragingServer(SegmentationAveragingSettings.model_validate({"fraction": 0.4, "rounds": 60} | changes))


def selecting(**changes: Any) -> ServerMethod:
    return FedSelectServer(FedSelectSettings.model_validate({"rounds": 60, "warmup_rounds": 1} | changes))


def correcting(**changes: Any) -> ServerMethod:
    """In its second stage, where one site of five or more is noisy."""
    stages = {"preprocessing_rounds": 1, "finetuning_rounds": 58}
    made = FedCorrServer(FedCorrSettings.model_validate({"rounds": 60} | stages | changes))
    made.noisy, made.shares = ("site-2",), {"site-2": 0.5}
    return made


@pytest.mark.parametrize("make", [sampling, selecting, correcting])
@pytest.mark.parametrize("num_sites", [5, 8, 12])
@pytest.mark.parametrize("seed", range(3))
def test_one_site_that_always_fails_ends_no_run(make: Callable[..., ServerMethod], num_sites: int, seed: int) -> None:
    """Deployed jobs want results of more than half of the sites, as many as these methods ask."""
    sites = [f"site-{number}" for number in range(1, num_sites + 1)]
    smallest = num_sites // 2 + 1
    made, history = make(seed=seed, min_sites=smallest), []
    failed_in_turn = worst = failed = 0
    drawn: set[str] = set()
    for number in range(2, 61):
        chosen = made.sites_to_train(round_of(number, history=history), sites)
        drawn |= set(chosen)
        gave = [site for site in chosen if site != "site-1"]
        failed_in_turn = 0 if len(gave) >= smallest else failed_in_turn + 1
        failed, worst = failed + (failed_in_turn > 0), max(worst, failed_in_turn)
        history.append(as_record({"round": number, "asked": list(chosen), "sites": {site: {} for site in gave}}))
    assert worst < MOST_FAILED
    assert failed <= 60 / 5
    # It is asked again, as it may have been mended.
    assert "site-1" in drawn
