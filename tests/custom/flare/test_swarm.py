"""The swarm's parts by themselves: what the aggregating site accepts, what a site answers, how it is started."""

import threading
from types import SimpleNamespace

import pytest
import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReservedKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.app_common.abstract.model import ModelLearnableKey, make_model_learnable
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.ccwf import SwarmClientController
from nvflare.app_common.ccwf.common import Constant
from nvflare.private.privacy_manager import Scope

from fedannot.custom.aggregation.streaming_average import StreamingAverage
from fedannot.custom.flare.at_hand import note_task
from fedannot.custom.flare.executor import FederatedExecutor
from fedannot.custom.flare.messages import REFUSAL_HEADER, SWARM_SITES
from fedannot.custom.flare.swarm import SwarmController, SwarmNotPossibleError, SwarmSiteController
from fedannot.custom.flare.swarm_aggregator import SwarmAggregator
from fedannot.custom.flare.swarm_executor import SwarmExecutor
from fedannot.custom.flare.swarm_state import note_beginning, seconds_in_round
from fedannot.custom.networks.described import described_network
from fedannot.custom.refusals import RefusalCode, RefusalReason
from fedannot.custom.run.reading import METRICS_FILE, read_metrics_file
from fedannot.custom.run.state import STATE_FILE, RunState
from fedannot.custom.settings import SettingsError

SETTINGS = {
    "method": "decoupled",
    "rounds": 3,
    "warmup_rounds": 1,
    "min_sites": 2,
    "network": {"features": [2, 2, 4, 4, 4, 2], "encoder_features": [2, 4], "latent": 2},
}


@pytest.fixture(autouse=True)
def metrics(tmp_path, monkeypatch):
    """The file in which this site keeps the rounds that it averages."""
    monkeypatch.setattr("fedannot.custom.flare.swarm_aggregator.own_folder", lambda _: tmp_path)
    monkeypatch.setattr("fedannot.custom.flare.swarm_aggregator.config_folder", lambda _: tmp_path / "local")
    return tmp_path / METRICS_FILE


def network_params(seed):
    generator = torch.Generator().manual_seed(seed)
    params = described_network(SwarmExecutor(SETTINGS).settings.network).state_dict()
    return {
        name: torch.randn(value.shape, generator=generator) if value.is_floating_point() else value
        for name, value in params.items()
    }


def context(sender=None, round_number=2, reference=None):
    found = FLContext()
    found.set_prop(AppConstants.CURRENT_ROUND, round_number, private=True, sticky=False)
    found.set_prop(SWARM_SITES, 4, private=True, sticky=False)
    if reference is not None:
        model = make_model_learnable(reference, {})
        found.set_prop(AppConstants.GLOBAL_MODEL, model, private=True, sticky=False)
    if sender is not None:
        peer = FLContext()
        peer.put(ReservedKey.IDENTITY_NAME, sender, private=False, sticky=False)
        found.set_peer_context(peer)
    return found


def result(params, num_samples=10, round_number=2, **meta):
    report = {"num_samples": num_samples, "num_excluded": 0, "embedded_data": True} | meta
    reply = DXO(DataKind.WEIGHTS, data=params, meta=report).to_shareable()
    reply.set_header(AppConstants.CURRENT_ROUND, round_number)
    return reply


def test_the_average_is_weighted_by_samples_and_the_same_in_any_order():
    reference, models = network_params(0), {f"site-{seed}": network_params(seed) for seed in (1, 2, 3)}
    averages = []
    for order in (sorted(models), sorted(models, reverse=True)):
        aggregator = SwarmAggregator(SETTINGS)
        for site in order:
            number = int(site[-1])
            assert aggregator.accept(result(models[site], 10 * number), context(site, reference=reference))
        averages.append(from_shareable(aggregator.aggregate(context())).data)
    name = "head.0.weight"
    expected = sum(int(site[-1]) * params[name].double() for site, params in models.items()) / 6
    torch.testing.assert_close(averages[0][name].double(), expected, atol=1e-6, rtol=0)
    assert all(torch.equal(averages[0][key], averages[1][key]) for key in reference)


def test_rounds_that_this_site_averages_are_kept_with_reports_refusals_and_weights(metrics, caplog):
    reference, aggregator, at_site = network_params(0), SwarmAggregator(SETTINGS), context()
    note_beginning(at_site)
    for round_number, claimed in ((1, 90), (3, 10)):
        assert not aggregator.accept(refusal(), context("site-3", round_number, reference))
        for site, samples in (("site-1", claimed), ("site-2", 10)):
            reply = result(network_params(1), samples, round_number, num_threads=4)
            assert aggregator.accept(reply, context(site, round_number, reference))
        aggregator.aggregate(at_site)
    first, last = read_metrics_file(metrics)
    assert (first.round, last.round) == (1, 3)
    assert first.refused == last.refused == {"site-3": RefusalReason.of(RefusalCode.NO_USABLE_DATA)}
    assert {site: (report.num_samples, report.num_threads) for site, report in first.sites.items()} == {
        "site-1": (90, 4),
        "site-2": (10, 4),
    }
    # 1 / (0.9² + 0.1²)
    assert (first.effective_sites, last.effective_sites) == (pytest.approx(1.2195122), 2.0)
    assert (first.dominant.site, last.dominant) == ("site-1", None)
    assert caplog.text.count("site-1 nearly decides alone: it has 0.90 of the weight") == 1
    assert 0 <= first.seconds < 60


def broken(params, name="head.0.weight"):
    return params | {name: torch.full_like(params[name], torch.nan)}


def refusal(code=RefusalCode.NO_USABLE_DATA.value):
    reply = DXO(DataKind.METRICS, data={"refused": True}).to_shareable()
    reply.set_header(REFUSAL_HEADER, code)
    return reply


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (lambda params: result(broken(params)), "head.0.weight"),
        (lambda params: result(params, round_number=1), "other round (round 1, expected 2)"),
        (lambda params: result(params, num_samples=0), "samples 0, largest"),
        (lambda params: result({"weight": torch.zeros(1)}), "head.0.bias"),
        (lambda params: refusal(), "Refused site-9: no usable data."),
        (lambda params: refusal("patient 0815"), "Refused site-9: no known reason."),
        (lambda params: refusal(7), "Refused site-9: no known reason."),
        (lambda params: DXO(DataKind.METRICS, data={"dice": 1.0}).to_shareable(), "Refused site-9: no model."),
    ],
)
def test_a_result_that_cannot_be_used_is_refused_by_name_and_the_others_count(bad, reason, caplog):
    reference = network_params(0)
    aggregator = SwarmAggregator(SETTINGS)
    assert not aggregator.accept(bad(network_params(9)), context("site-9", reference=reference))
    (warning,) = [record.message for record in caplog.records if "Refused" in record.message]
    assert "Refused site-9: " in warning
    assert reason in warning
    for seed in (1, 2):
        assert aggregator.accept(result(network_params(seed)), context(f"site-{seed}", reference=reference))
    assert not aggregator.accept(result(network_params(1)), context("site-1", reference=reference))
    average = from_shareable(aggregator.aggregate(context())).data
    mean = (network_params(1)["head.0.weight"] + network_params(2)["head.0.weight"]) / 2
    torch.testing.assert_close(average["head.0.weight"], mean)


def test_too_few_usable_results_end_the_run():
    aggregator = SwarmAggregator(SETTINGS)
    assert aggregator.accept(result(network_params(1)), context("site-1", reference=network_params(0)))
    with pytest.raises(RuntimeError, match="Round 2: 1 usable results, at least 2 are needed"):
        aggregator.aggregate(context())


def test_a_round_that_would_be_nearly_one_sites_ends_the_run(tmp_path):
    """By the limits of the site that averages; without a prepared kit there are none."""
    reference = network_params(0)

    def averaged():
        aggregator = SwarmAggregator(SETTINGS)
        for site, samples in (("site-1", 90), ("site-2", 10)):
            assert aggregator.accept(result(network_params(1), samples), context(site, reference=reference))
        return aggregator.aggregate(context())

    averaged()
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "limits.json").write_text("{}")
    with pytest.raises(RuntimeError, match=r"refused site-1: weight too large \(weight 0\.9, largest 0\.5\)"):
        averaged()
    (tmp_path / "local" / "limits.json").write_text('{"largest_share": 0.9}')
    averaged()


def test_a_new_round_begins_with_an_empty_sum():
    aggregator = SwarmAggregator(SETTINGS)
    for number, seeds in ((1, (1, 2)), (2, (3, 4))):
        for seed in seeds:
            reply = result(network_params(seed), round_number=number)
            assert aggregator.accept(reply, context(f"site-{seed}", number, network_params(0)))
        average = from_shareable(aggregator.aggregate(context())).data
    mean = (network_params(3)["head.0.bias"] + network_params(4)["head.0.bias"]) / 2
    torch.testing.assert_close(average["head.0.bias"], mean)


def test_what_is_being_received_is_added_before_the_round_ends(monkeypatch):
    """NVFlare counts an answer, and may end the round, before the aggregator has it."""
    gatherer, order = SimpleNamespace(lock=threading.Lock()), []
    monkeypatch.setattr(SwarmClientController, "_end_gather", lambda *_: order.append("averaged"))
    controller = SwarmSiteController(SETTINGS)
    gatherer.lock.acquire()
    ending = threading.Thread(target=controller._end_gather, args=(gatherer,))
    ending.start()
    ending.join(0.2)
    order.append("added")
    gatherer.lock.release()
    ending.join(10)
    assert order == ["added", "averaged"]


def executor_that_answers(reply, monkeypatch):
    executor = SwarmExecutor(SETTINGS)

    def execute(self, task, shareable, fl_ctx, stop):
        note_task(task, executor.settings, fl_ctx)
        return reply

    monkeypatch.setattr(FederatedExecutor, "execute", execute)
    return executor


def test_nothing_unregistered_goes_to_another_site(monkeypatch):
    """NVFlare's filters do not see what sites send each other."""
    executor = executor_that_answers(result({}, file_names=["a.png"]), monkeypatch)
    reply = executor.execute("train", Shareable(), FLContext(), Signal())
    assert reply.get_header(REFUSAL_HEADER) == RefusalCode.HELD_BACK
    assert from_shareable(reply).data == {"refused": True}
    assert not SwarmAggregator(SETTINGS).accept(reply, context("site-1", reference=network_params(0)))


def test_what_another_method_sends_does_not_go_to_another_site(monkeypatch):
    executor = executor_that_answers(result({}, has_corrected=True), monkeypatch)
    reply = executor.execute("train", Shareable(), FLContext(), Signal())
    assert reply.get_header(REFUSAL_HEADER) == RefusalCode.HELD_BACK


def test_the_sites_own_filters_apply_to_what_goes_to_another_site(monkeypatch):
    """A swarm would else send updates as they are from a site that makes them private."""

    class Halving(Filter):
        def process(self, shareable, fl_ctx):
            assert fl_ctx.get_prop(FLContextKey.TASK_NAME) == "train"
            dxo = from_shareable(shareable)
            dxo.data = {name: value / 2 for name, value in dxo.data.items()}
            return dxo.update_shareable(shareable)

    scope = Scope()
    scope.add_task_result_filter(Halving(), FilterKey.OUT)
    at_site = FLContext()
    at_site.set_prop(FLContextKey.SCOPE_OBJECT, scope, private=True, sticky=False)
    executor = executor_that_answers(result({"w": torch.full((2,), 8.0)}), monkeypatch)
    reply = executor.execute("train", Shareable(), at_site, Signal())
    assert torch.equal(from_shareable(reply).data["w"], torch.full((2,), 4.0))


def test_a_failed_training_is_answered_with_its_reason(monkeypatch):
    """With its return code NVFlare would end the run of all sites."""
    failed = Shareable()
    failed.set_return_code(ReturnCode.EXECUTION_EXCEPTION)
    failed.set_header(REFUSAL_HEADER, RefusalCode.NO_USABLE_DATA)
    reply = executor_that_answers(failed, monkeypatch).execute("train", Shareable(), FLContext(), Signal())
    assert reply.get_return_code() == ReturnCode.OK
    assert not SwarmAggregator(SETTINGS).accept(reply, context("site-1", reference=network_params(0)))


def test_what_a_filter_sends_in_place_of_a_failed_training_goes_to_another_site(monkeypatch):
    class Standing(Filter):
        def process(self, shareable, fl_ctx):
            assert shareable.get_return_code() == ReturnCode.EXECUTION_EXCEPTION
            return result({"w": torch.zeros(2)})

    scope, at_site = Scope(), FLContext()
    scope.add_task_result_filter(Standing(), FilterKey.OUT)
    at_site.set_prop(FLContextKey.SCOPE_OBJECT, scope, private=True, sticky=False)
    failed = make_reply(ReturnCode.EXECUTION_EXCEPTION)
    reply = executor_that_answers(failed, monkeypatch).execute("train", Shareable(), at_site, Signal())
    assert torch.equal(from_shareable(reply).data["w"], torch.zeros(2))


def started(processes, sites):
    engine = SimpleNamespace(get_clients=lambda: list(range(sites)), args=SimpleNamespace(threads=processes))
    return SimpleNamespace(get_engine=lambda: engine)


def test_a_simulator_with_fewer_processes_than_sites_is_refused_with_the_command_to_type():
    with pytest.raises(SwarmNotPossibleError, match=r"the 4 sites talk to each other.* found 1\. Type: .* -n 4 -t 4"):
        SwarmController(SETTINGS).start_controller(started(1, 4))


def test_a_start_model_is_refused_where_no_server_reads_it():
    with pytest.raises(SettingsError, match=r"key 'start_model' is 'bundle', but a swarm has no server"):
        SwarmController(SETTINGS | {"start_model": "bundle"})


def test_a_round_of_a_site_begins_with_its_task(monkeypatch):
    monkeypatch.setattr(SwarmClientController, "do_learn_task", lambda *_: None)
    task, at_site = Shareable(), context()
    task.set_header(AppConstants.CURRENT_ROUND, 2)
    assert seconds_in_round(at_site) == 0
    SwarmSiteController(SETTINGS).do_learn_task("train", task, at_site, Signal())
    assert 0 < seconds_in_round(at_site) < 60


def configured(tmp_path, monkeypatch, site="site-2", **changes):
    """What a site makes of the swarm's configuration when it continues a run: reply, configuration, context."""
    monkeypatch.setattr(SwarmClientController, "execute", lambda *_: make_reply(ReturnCode.OK))
    state = tmp_path / "workspace" / "site-1" / "job" / STATE_FILE
    controller = SwarmSiteController(SETTINGS | {"resume_from": str(state)} | changes)
    controller.config = {Constant.START_ROUND: 1, AppConstants.NUM_ROUNDS: 3}
    monkeypatch.setattr(controller, "system_panic", lambda reason, _: panics.append(reason))
    panics = []
    workspace = SimpleNamespace(
        get_run_dir=lambda job: str(tmp_path / "own" / job),
        get_job_meta_path=lambda job: str(tmp_path / "own" / str(job) / "meta.json"),
    )
    fl_ctx = context()
    fl_ctx.put(ReservedKey.IDENTITY_NAME, site, private=False, sticky=False)
    engine = SimpleNamespace(get_workspace=lambda: workspace)
    monkeypatch.setattr(fl_ctx, "get_engine", lambda: engine)
    reply = controller.execute(controller.configure_task_name, Shareable(), fl_ctx, Signal())
    return reply.get_return_code(), controller.config, fl_ctx, panics


def keep_state(folder, round_number, **changes):
    settings = SwarmController(SETTINGS | changes).settings.model_dump(mode="json")
    folder.mkdir(parents=True)
    RunState("decoupled", settings, round_number, network_params(round_number)).save(folder / STATE_FILE)


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ({"workspace/site-1/job": 1}, 1),
        ({"workspace/site-1/job": 1, "workspace/site-2/job": 2}, 2),
        ({"workspace/site-1/job": 1, "own/job": 2}, 2),
        ({"workspace/site-1/job": 1, "own/job": 1, "own/private/job": 2}, 2),
    ],
    ids=["the named one", "beside the named one", "in its own workspace", "in its own folder"],
)
def test_a_continued_swarm_begins_after_the_state_that_the_site_kept(kept, expected, tmp_path, monkeypatch):
    for folder, round_number in kept.items():
        keep_state(tmp_path / folder, round_number)
    code, config, fl_ctx, panics = configured(tmp_path, monkeypatch)
    assert (code, panics) == (ReturnCode.OK, [])
    assert config == {Constant.START_ROUND: expected + 1, AppConstants.NUM_ROUNDS: 3 - expected}
    model = fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)[ModelLearnableKey.WEIGHTS]
    assert all(torch.equal(model[name], value) for name, value in network_params(expected).items())


def test_a_swarm_that_cannot_be_continued_ends_with_the_reason(tmp_path, monkeypatch):
    code, _, _, panics = configured(tmp_path, monkeypatch)
    assert code == ReturnCode.EXECUTION_EXCEPTION
    file = tmp_path / "workspace" / "site-1" / "job" / STATE_FILE
    assert panics == [f"Expected the state of an earlier run at {file}, but there is no such file."]
    keep_state(tmp_path / "workspace" / "site-1" / "job", 3)
    assert configured(tmp_path, monkeypatch)[3] == ["The state is that after round 3 of 3."]
    (panic,) = configured(tmp_path, monkeypatch, seed=7)[3]
    assert panic == "The state was made with other settings: now seed=7 instead of 0."


def test_rounds_count_from_one():
    controller = SwarmController(SETTINGS)
    assert (controller.start_round, controller.num_rounds) == (1, 3)


def test_the_sum_is_the_servers():
    """The same class of sum, whose bits do not depend on the order."""
    aggregator = SwarmAggregator(SETTINGS)
    aggregator.accept(result(network_params(1)), context("site-1", reference=network_params(0)))
    assert isinstance(aggregator._average._average, StreamingAverage)


@pytest.mark.parametrize("rule", ["median", "trimmed_mean", "multi_krum"])
def test_another_rule_than_the_mean_needs_a_server(rule):
    with pytest.raises(SettingsError, match=f"key 'aggregation.rule' is '{rule}', expected 'mean'"):
        SwarmAggregator(SETTINGS | {"aggregation": {"rule": rule}, "min_sites": 5})


def test_sampling_a_servers_optimizer_corrections_of_drift_and_quantised_updates_need_a_server():
    plain = {"optimizer": "sgd", "momentum": 0.0}
    for key, value in (
        ("fraction", 0.5),
        ("drift_correction", "scaffold"),
        ("server_optimizer", {"name": "fedadam"}),
        ("update_precision", "int8"),
        ("model_precision", "bf16"),
    ):
        with pytest.raises(SettingsError, match=rf"key '{key}[.a-z]*' needs a server; in a swarm it cannot be set"):
            SwarmAggregator({"method": "fedavg", "training": plain, key: value})


@pytest.mark.parametrize(
    "method",
    [
        {"task": "segmentation", "method": "feddm", "models_to_sites": True, "training": {"loss": "ce"}},
        {"task": "classification", "method": "fedgp", "rounds": 30},
    ],
)
def test_methods_whose_models_are_made_at_the_server_need_one(method):
    with pytest.raises(SettingsError, match="key 'method' needs a server; in a swarm it cannot be set"):
        SwarmAggregator(method)


def test_bounds_on_influence_need_a_server():
    with pytest.raises(SettingsError, match="key 'influence' needs a server"):
        SwarmAggregator(SETTINGS | {"influence": {"max_update_ratio": 3.0}})


def test_a_claim_of_all_that_may_be_had_takes_nothing_from_the_others():
    reference = network_params(0)
    aggregator = SwarmAggregator(SETTINGS)
    assert not aggregator.accept(result(network_params(3), 2**24), context("site-3", reference=reference))
    for seed in (1, 2):
        assert aggregator.accept(result(network_params(seed)), context(f"site-{seed}", reference=reference))
    average = from_shareable(aggregator.aggregate(context())).data
    mean = (network_params(1)["head.0.weight"] + network_params(2)["head.0.weight"]) / 2
    torch.testing.assert_close(average["head.0.weight"], mean)


def test_a_later_claim_counts_up_to_the_first_that_this_site_saw():
    aggregator = SwarmAggregator(SETTINGS)
    for round_number, samples in ((1, 10), (2, 10**6)):
        for seed, num_samples in ((1, 10), (2, samples)):
            reply = result(network_params(seed), num_samples, round_number=round_number)
            assert aggregator.accept(reply, context(f"site-{seed}", round_number, network_params(0)))
        average = from_shareable(aggregator.aggregate(context())).data
        mean = (network_params(1)["head.0.weight"] + network_params(2)["head.0.weight"]) / 2
        torch.testing.assert_close(average["head.0.weight"], mean)
