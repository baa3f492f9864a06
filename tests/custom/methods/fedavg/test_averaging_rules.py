"""SCAFFOLD, FedNova, server optimizers and sampling in whole rounds: hand-worked parabolas, limits, order, resuming."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.pictures import make_data
from support.quadratic_sites import ParabolaRun, ParabolaSite, parabola
from support.site_views import HandmadeSite

from fedannot.custom.data.participant_folder import WAITING_FOLDER
from fedannot.custom.methods.fedavg.averaging_settings import SegmentationAveragingSettings
from fedannot.custom.methods.fedavg.averaging_site import AveragingSite
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.run.state import STATE_FILE, RunState

PLAIN = {"optimizer": "sgd", "momentum": 0.0, "learning_rate": 0.1, "schedule": "constant"}
SCAFFOLD, FEDNOVA = {"drift_correction": "scaffold"}, {"drift_correction": "fednova"}
ADAM = {"server_optimizer": {"name": "fedadam"}}
EVERY = {
    "scaffold": SCAFFOLD,
    "fednova": FEDNOVA,
    "fedavgm": {"server_optimizer": {"name": "fedavgm"}},
    "fedadagrad": {"server_optimizer": {"name": "fedadagrad"}},
    "fedadam": ADAM,
    "fedyogi": {"server_optimizer": {"name": "fedyogi"}},
    "scaffold, half, fedavgm": SCAFFOLD | {"fraction": 0.5, "server_optimizer": {"name": "fedavgm", "momentum": 0.5}},
    "fednova, half": FEDNOVA | {"fraction": 0.5},
}


@pytest.fixture(autouse=True)
def parabolas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FedAvgSite, "objective", parabola)


def settings_of(rounds: int, steps: int | None = 2, **changes: Any) -> SegmentationAveragingSettings:
    training = PLAIN | {"local_steps": steps} | changes.pop("training", {})
    values = {"rounds": rounds, "training": training, "validate_every": 999}
    return SegmentationAveragingSettings.model_validate(values | changes)


def two_sites(folder: Path, settings: SegmentationAveragingSettings) -> list[ParabolaSite]:
    """½ (x − 2)² and 3/2 (x + 2)², whose sum is least at −1."""
    return [ParabolaSite(folder / "a", settings, 1, 2), ParabolaSite(folder / "b", settings, 3, -2)]


def four_sites(folder: Path, settings: SegmentationAveragingSettings) -> list[ParabolaSite]:
    """Sites of other sizes, with other numbers of steps and learning rates that fall within a round."""
    values = {"a": (1, 2.0, 3, 10), "b": (3, -2.0, 1, 20), "c": (0.5, 7.0, 2, 5), "d": (2, 0.3, 2, 31)}
    return [
        ParabolaSite(folder / name, settings, curvature, centre, local_steps=steps, num_samples=samples)
        for name, (curvature, centre, steps, samples) in values.items()
    ]


# --- vectors by hand


def test_scaffold_by_hand(tmp_path: Path) -> None:
    settings = settings_of(3, **SCAFFOLD)
    run = ParabolaRun(tmp_path / "run", settings, two_sites(tmp_path, settings)).begin()
    assert run.xs == pytest.approx([-0.32, -0.563, -0.72189])
    first, second = (float(request.params["control_variates.variate_0"]) for request in run.link.requests[1:3])
    assert (first, second) == (pytest.approx(1.6), pytest.approx(1.215))
    own = [torch.load(tmp_path / name / "run" / "control_variates" / "round_2.pt", weights_only=True) for name in "ab"]
    assert [float(variate["0"]) for variate in own] == [pytest.approx(-2.379), pytest.approx(4.809)]


def test_scaffolds_limit_is_the_optimum_and_that_of_federated_averaging_is_not(tmp_path: Path) -> None:
    for changes, first, limit in (({}, [-0.32, -0.528, -0.6632], -0.914286), (SCAFFOLD, [-0.32, -0.563], -1.0)):
        settings = settings_of(60, **changes)
        folder = tmp_path / (settings.drift_correction)
        run = ParabolaRun(folder / "run", settings, two_sites(folder, settings)).begin()
        assert run.xs[: len(first)] == pytest.approx(first)
        assert run.xs[-1] == pytest.approx(limit, abs=1e-5)


def test_scaffold_of_one_step_begins_as_federated_averaging_and_of_equal_sites_stays_so(tmp_path: Path) -> None:
    """With one step a site's correction is that of the mean: it adds up to nothing. Equal sites have equal variates."""
    results = []
    for name, changes in (("scaffold", SCAFFOLD), ("none", {})):
        one_step = settings_of(4, 1, **changes)
        equal = settings_of(4, 3, **changes)
        sites = [ParabolaSite(tmp_path / name / site, equal, 3, -2) for site in "ab"]
        results.append(
            (
                ParabolaRun(tmp_path / name / "one", one_step, two_sites(tmp_path / name / "of-one", one_step)).begin(),
                ParabolaRun(tmp_path / name / "equal", equal, sites).begin(),
            )
        )
    (one, equals), (plain_one, plain_equals) = results
    assert one.xs == pytest.approx(plain_one.xs, abs=1e-6)
    assert equals.xs == pytest.approx(plain_equals.xs, abs=1e-6)
    files = [tmp_path / "scaffold" / site / "run" / "control_variates" / "round_4.pt" for site in "ab"]
    own = [float(torch.load(file, weights_only=True)["0"]) for file in files]
    assert own == [pytest.approx(float(equals.params["control_variates.variate_0"]))] * 2


def test_the_servers_variate_is_the_mean_of_the_sites_by_samples(tmp_path: Path) -> None:
    """Whoever trains when, with whatever number of steps; who never trained counts with zero."""
    samples = {"a": 10, "b": 20, "c": 5, "d": 31}
    settings = settings_of(4, None, **SCAFFOLD, fraction=0.5, training={"schedule": "polynomial"})
    run = ParabolaRun(tmp_path / "run", settings, four_sites(tmp_path, settings)).begin()
    last = {site: record.round for record in run.records for site in record.sites}
    own = {
        site: float(torch.load(tmp_path / site / "run/control_variates" / f"round_{number}.pt", weights_only=True)["0"])
        for site, number in last.items()
    }
    mean = sum(samples[site] * own[site] for site in own) / sum(samples[site] for site in own)
    assert len({len(record.sites) for record in run.records}) == 1
    assert float(run.params["control_variates.variate_0"]) == pytest.approx(mean * len(own) / 4, rel=1e-7)
    assert all(own.values())


def test_scaffold_stays_at_the_optimum_where_federated_averaging_leaves_it(tmp_path: Path) -> None:
    settings = settings_of(3, **SCAFFOLD)
    run = ParabolaRun(tmp_path / "run", settings, two_sites(tmp_path / "sites", settings)).begin(x=-1.0)
    plain = settings_of(3)
    averaged = ParabolaRun(tmp_path / "plain", plain, two_sites(tmp_path / "plain-sites", plain)).begin(x=-1.0)
    assert abs(run.xs[-1] + 1) < abs(run.xs[0] + 1) < 0.05
    assert abs(averaged.xs[0] + 1) < abs(averaged.xs[-1] + 1)


def test_fednova_by_hand(tmp_path: Path) -> None:
    """Sites of 1 and 4 steps: −0.2 and 0.6878 come back, of which the second counts a quarter, times 2.5."""
    settings = settings_of(1, None, **FEDNOVA)
    sites = [
        ParabolaSite(tmp_path / "a", settings, 1, 2, local_steps=1),
        ParabolaSite(tmp_path / "b", settings, 1, -2, local_steps=4),
    ]
    run = ParabolaRun(tmp_path / "run", settings, sites).begin()
    assert run.xs == pytest.approx([2.5 * (0.2 / 2 - 2 * (1 - 0.9**4) / 4 / 2)])
    # Where it ends, and where federated averaging does.
    stays = ParabolaRun(tmp_path / "stays", settings, sites).begin(x=0.150827)
    for site in sites:
        site.settings = site.settings.model_copy(update={"drift_correction": "none"})
    averaged = ParabolaRun(tmp_path / "plain", settings_of(1), sites).begin(x=-1.098896)
    assert (stays.xs[0], averaged.xs[0]) == (pytest.approx(0.150827, abs=1e-6), pytest.approx(-1.098896, abs=1e-6))
    # Running statistics are the average's, counters the first of the largest sites'.
    for result in (stays, averaged):
        assert (float(result.params["mean"]), int(result.params["count"])) == (0.0, 10)


def test_fednova_of_sites_of_other_sizes(tmp_path: Path) -> None:
    """Of 1 and 4 steps, and as many samples, it is Σ τ² / (Σ τ)² of the sum of both ways."""
    for shares, factors in (((10, 10), (2.5 / 2, 2.5 / 8)), ((10, 40), (17 / 25, 17 / 25))):
        settings = settings_of(1, None, **FEDNOVA)
        folder = tmp_path / str(shares[1])
        sites = [
            ParabolaSite(folder / "a", settings, 1, 2, local_steps=1, num_samples=shares[0]),
            ParabolaSite(folder / "b", settings, 1, -2, local_steps=4, num_samples=shares[1]),
        ]
        run = ParabolaRun(folder / "run", settings, sites).begin()
        ways = 0.2, -2 * (1 - 0.9**4)
        assert run.xs == pytest.approx([sum(factor * way for factor, way in zip(factors, ways, strict=True))])


# --- limits


def plain_run(tmp_path: Path, steps: int = 2) -> ParabolaRun:
    settings = settings_of(3, steps)
    return ParabolaRun(tmp_path / "plain", settings, two_sites(tmp_path / "plain-sites", settings)).begin()


@pytest.mark.parametrize(
    "changes",
    [
        FEDNOVA,
        {"fraction": 0.999, "min_sites": 2},
        {"server_optimizer": {"name": "fedavgm", "momentum": 0.0, "learning_rate": 1.0}},
        FEDNOVA | {"server_optimizer": {"name": "fedavgm", "momentum": 0.0}},
    ],
    ids=["fednova of equal steps", "all are drawn", "rate 1 without momentum", "both"],
)
def test_limits_are_federated_averaging_bit_for_bit(changes: dict[str, Any], tmp_path: Path) -> None:
    settings = settings_of(3, **changes)
    run = ParabolaRun(tmp_path / "run", settings, two_sites(tmp_path / "sites", settings)).begin()
    plain = plain_run(tmp_path)
    assert all(torch.equal(plain.params[name], value) for name, value in run.params.items())


def test_scaffolds_first_round_is_federated_averaging_bit_for_bit(tmp_path: Path) -> None:
    settings = settings_of(3, **SCAFFOLD)
    run = ParabolaRun(tmp_path / "run", settings, two_sites(tmp_path / "sites", settings)).begin()
    plain = plain_run(tmp_path)
    assert torch.equal(run.link.models[0]["x"], plain.link.models[0]["x"])
    assert not torch.equal(run.link.models[1]["x"], plain.link.models[1]["x"])


@pytest.mark.parametrize("changes", [SCAFFOLD, FEDNOVA], ids=["scaffold", "fednova"])
def test_of_a_single_site_the_model_is_its_own(changes: dict[str, Any], tmp_path: Path) -> None:
    settings = settings_of(3, **changes)
    run = ParabolaRun(tmp_path / "run", settings, two_sites(tmp_path, settings)[:1]).begin()
    # x − 2 shrinks by 0.9 a step.
    assert run.xs == pytest.approx([2 - 2 * 0.9**steps for steps in (2, 4, 6)])


# --- order, resuming, records


@pytest.mark.parametrize("changes", EVERY.values(), ids=EVERY)
def test_no_order_of_arrival_and_no_restart_changes_a_bit(changes: dict[str, Any], tmp_path: Path) -> None:
    schedule = {"training": {"schedule": "polynomial"}}
    settings = settings_of(4, None, **changes, **schedule)
    whole = ParabolaRun(tmp_path / "whole", settings, four_sites(tmp_path / "one", settings)).begin()
    sites = four_sites(tmp_path / "other", settings)
    first = ParabolaRun(tmp_path / "first", settings, sites[::-1])
    killed = first.link.give

    def give(request: Any, receive: Any, refuse: Any) -> None:
        killed(request, receive, refuse)
        first.link.stopped = request.round_number == 3

    first.link.give = give  # type: ignore[method-assign]
    # Killed in the third round, in which the sites have trained.
    first.begin()
    state = tmp_path / "first" / "run" / STATE_FILE
    assert RunState.load(state).round_number == 2
    later = ParabolaRun(tmp_path / "later", settings, [sites[index] for index in (2, 0, 3, 1)]).begin(state)
    assert all(torch.equal(whole.params[name], value) for name, value in later.params.items())
    assert not (tmp_path / "later" / "private" / WAITING_FOLDER).exists()
    said = [text for site in sites for text in site.handmade.said]
    assert not [text for text in said if "control variate" in text]


def test_a_fraction_of_the_sites_is_drawn_by_seed_and_round_and_recorded(tmp_path: Path) -> None:
    asked = {}
    for name, changes in (("one", {}), ("again", {}), ("other", {"seed": 1}), ("three", {"min_sites": 3})):
        settings = settings_of(4, fraction=0.5, **changes)
        run = ParabolaRun(tmp_path / name, settings, four_sites(tmp_path / f"{name}-sites", settings)).begin()
        asked[name] = [record.named("asked") for record in run.records]
        assert [sorted(record.sites) for record in run.records] == asked[name]
        assert [sorted(request.sites) for request in run.link.requests if request.task == "train"] == asked[name]
    assert asked["one"] == asked["again"] != asked["other"]
    assert {len(sites) for sites in asked["one"]} == {2}
    assert {len(sites) for sites in asked["three"]} == {3}
    assert {site for sites in asked["one"] for site in sites} == set("abcd")
    settings = settings_of(1, fraction=0.01)
    run = ParabolaRun(tmp_path / "few", settings, four_sites(tmp_path / "few-sites", settings)).begin()
    assert len(run.records[0].sites) == 1


def test_who_is_asked_is_not_in_the_records_where_all_are(tmp_path: Path) -> None:
    assert plain_run(tmp_path).records[0].named("asked") is None


def test_a_site_learns_the_round_of_its_own_variate_and_no_other_sites_name(tmp_path: Path) -> None:
    settings = settings_of(3, **SCAFFOLD)
    seen: list[tuple[str, int, dict[str, Any]]] = []
    run = ParabolaRun(tmp_path / "run", settings, two_sites(tmp_path, settings))

    def listening(site: ParabolaSite) -> Any:
        def answer(request: Any) -> Any:
            if request.task == "train":
                seen.append((site.name, request.round_number, dict(request.message)))
            return site(request)

        return answer

    run.link.there = {name: listening(site) for name, site in run.link.there.items()}
    run.link.there["b"] = lambda request, b=run.link.there["b"]: "ill" if request.round_number == 1 else b(request)
    run.begin()
    first = {"fedannot_is_controlled": False}
    later = {"fedannot_is_controlled": True}
    assert seen == [
        ("a", 1, first),
        *(("a", 2, later | {"fedannot_counted_round": 1}), ("b", 2, later)),
        *(("a", 3, later | {"fedannot_counted_round": 2}), ("b", 3, later | {"fedannot_counted_round": 2})),
    ]


# --- what goes wrong


def test_a_variate_that_is_lost_counts_as_zero_with_a_warning(tmp_path: Path) -> None:
    settings = settings_of(2, **SCAFFOLD)
    sites = two_sites(tmp_path, settings)
    trained = sites[0].__call__

    def forgetful(request: Any) -> Any:
        for file in (tmp_path / "a" / "run").glob("control_variates/*"):
            file.unlink()
        return trained(request)

    run = ParabolaRun(tmp_path / "run", settings, sites)
    run.link.there["a"] = forgetful
    run.begin()
    assert sites[0].handmade.said[0].startswith("This site's own control variate after round 1 is not in")
    assert run.records[-1].sites.keys() == {"a", "b"}


def test_a_site_that_was_refused_goes_on_with_the_variate_that_counted(tmp_path: Path) -> None:
    """Its steps of a round that does not count are in neither variate."""
    results = []
    for name in ("absent", "refused"):
        settings = settings_of(4, **SCAFFOLD)
        sites = two_sites(tmp_path / name, settings)
        run = ParabolaRun(tmp_path / f"{name}-run", settings, sites)
        trained = sites[1].__call__

        def ill(request: Any, trained: Any = trained, trains: bool = name == "refused") -> Any:
            if request.round_number not in (2, 3):
                return trained(request)
            if trains:
                trained(request)
            return "it fell ill"

        run.link.there["b"] = ill
        results.append(run.begin().params)
    assert all(torch.equal(results[0][name], value) for name, value in results[1].items())


def test_a_site_without_its_number_of_steps_weighs_least(tmp_path: Path) -> None:
    settings = settings_of(1, None, **FEDNOVA)
    sites = [ParabolaSite(tmp_path / name, settings, 1, 2, local_steps=steps) for name, steps in (("a", 1), ("b", 4))]
    whole = ParabolaRun(tmp_path / "whole", settings, sites).begin()
    silent = ParabolaRun(tmp_path / "silent", settings, sites)
    reply = sites[1].__call__

    def without_steps(request: Any) -> Any:
        answer = reply(request)
        fields = {name: value for name, value in answer.fields.items() if name != "num_steps"}
        return type(answer)(answer.site, answer.round_number, fields, answer.params)

    silent.link.there["b"] = without_steps
    silent.begin()
    assert "b reported no number of local steps, and counts with 1." in silent.link.sentences("warning")
    assert whole.xs != silent.xs


@pytest.mark.parametrize("changes", [SCAFFOLD, FEDNOVA], ids=["scaffold", "fednova"])
@pytest.mark.parametrize(("steps", "counted"), [(2, 2), (None, 10)])
def test_steps_that_no_site_can_have_made_do_not_count(
    changes: dict[str, Any], steps: int | None, counted: int, tmp_path: Path
) -> None:
    """One claim of 2³¹ steps would throw the model away by FedNova, and take the server's memory by SCAFFOLD."""
    settings = settings_of(1, steps, **changes, training={"schedule": "polynomial", "local_epochs": 1})
    sites = [ParabolaSite(tmp_path / name, settings, 1, 2, local_steps=2) for name in "ab"]
    run = ParabolaRun(tmp_path / "run", settings, sites)
    reply = run.link.there["b"]

    def boasting(request: Any) -> Any:
        answer = reply(request)
        fields = {**answer.fields, "num_steps": 2**31}
        return type(answer)(answer.site, answer.round_number, fields, answer.params)

    run.link.there["b"] = boasting
    run.begin()
    assert all(abs(x) < 2 for x in run.xs)
    said = f"b reported {2**31} local steps, which the settings and its 10 samples do not allow, and counts with "
    assert said + f"{counted}." in run.link.sentences("warning")


@pytest.mark.parametrize("steps", [0, -1, 2**31 + 1, 1.5, float("nan"), True, "2", [2], None])
def test_what_is_no_number_of_steps_is_refused(steps: object, tmp_path: Path) -> None:
    settings = settings_of(1, **FEDNOVA)
    run = ParabolaRun(tmp_path / "run", settings, two_sites(tmp_path, settings))
    reply = run.link.there["b"]

    def lying(request: Any) -> Any:
        answer = reply(request)
        return type(answer)(answer.site, answer.round_number, {**answer.fields, "num_steps": steps}, answer.params)

    run.link.there["b"] = lying
    assert run.begin().records[0].sites.keys() == {"a"}


@pytest.mark.parametrize(("changes", "expected"), [({}, 3), ({"local_epochs": 2}, 6), ({"local_steps": 5}, 5)])
def test_a_site_says_how_many_steps_it_makes(changes: dict[str, Any], expected: int, tmp_path: Path) -> None:
    """Of six pictures in batches of two an epoch has three."""
    training = PLAIN | {"batch_size": 2, "local_epochs": 1} | changes
    settings = SegmentationAveragingSettings.model_validate(FEDNOVA | {"training": training})
    view = HandmadeSite(tmp_path, make_data([(1,)] * 6)).view(AveragingSite(settings), 1)
    assert AveragingSite(settings).training_flags(view) == {"num_steps": expected}
