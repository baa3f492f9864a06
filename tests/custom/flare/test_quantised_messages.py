"""Updates in fewer bits at a site's exit: after noise for privacy, once, and in the bytes of NVFlare's message."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.apis.utils.task_utils import apply_filters
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_opt.pt.decomposers import TensorDecomposer
from nvflare.fuel.utils import fobs
from nvflare.private.privacy_manager import Scope

from fedannot.custom.aggregation.quantised_updates import SCALES, QuantisedUpdate, message_refusal
from fedannot.custom.aggregation.settings import UpdatePrecision
from fedannot.custom.flare.executor import FederatedExecutor
from fedannot.custom.flare.messages import FIELDS_WITHOUT_MODEL, RECEIVED_MODEL
from fedannot.custom.flare.outbound_filter import OutboundFilter
from fedannot.custom.flare.privacy_filter import PrivacyFilter, StatisticsPrivacyFilter
from fedannot.custom.flare.task_process import SiteContext
from fedannot.custom.networks.described import described_network
from fedannot.custom.outbound.registry import OutboundError
from fedannot.custom.run.sent_updates import RESIDUALS_FOLDER
from fedannot.custom.task_names import TRAIN, VALIDATE

META = {"num_samples": 8, "num_excluded": 0, "embedded_data": False}
FEATURES = [16, 32, 64, 128, 128, 16]


class Answering(FederatedExecutor):
    """Has been trained already: what a task answers is given."""

    reply: Shareable

    def answer(self, *arguments: Any, **options: Any) -> Shareable:
        self.reply.set_return_code(self.reply.get_return_code())
        return self.reply


def executor_of(precision: UpdatePrecision, features: Sequence[int] = (4, 4, 8, 8, 8, 4)) -> Answering:
    network = {"features": list(features), "upsample": "nontrainable"}
    return Answering({"method": "fedavg", "network": network, "update_precision": precision})


def received_by(executor: FederatedExecutor) -> dict[str, torch.Tensor]:
    return dict(described_network(executor.settings.network).state_dict())


def trained_from(reference: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        name: value + 0.01 * torch.randn(value.shape, generator=generator).abs()
        if value.is_floating_point()
        else value + 47
        for name, value in reference.items()
    }


def context(folder: Path, scope: Sequence[Filter] = (), task: str = TRAIN) -> FLContext:
    for needed in ("startup", "local"):
        (folder / needed).mkdir(exist_ok=True)
    made: FLContext = SiteContext("site-1", "job", str(folder)).context()
    made.set_prop(FLContextKey.TASK_NAME, task, private=True, sticky=False)
    of_site = Scope()
    for each in scope:
        of_site.add_task_result_filter(each, FilterKey.OUT)
    made.set_prop(FLContextKey.SCOPE_OBJECT, of_site, private=True, sticky=False)
    return made


def leaving(executor: Answering, made: FLContext, reply: Shareable, *more: Filter, round_number: int = 1) -> Shareable:
    """What leaves the site: its executor's answer, filtered by the site's policy and the job's filters."""
    task = DXO(DataKind.WEIGHTS, data=received_by(executor)).to_shareable()
    task.set_header(AppConstants.CURRENT_ROUND, round_number)
    executor.reply = reply
    name = made.get_prop(FLContextKey.TASK_NAME)
    answer = executor.execute(name, task, made, Signal())
    of_job = {name + FilterKey.DELIMITER + FilterKey.OUT: [OutboundFilter(), *more]}
    filtered: Shareable = apply_filters(Scope.TASK_RESULT_FILTERS_NAME, answer, made, of_job, name, FilterKey.OUT)
    return filtered


def model(params: dict[str, torch.Tensor], **meta: Any) -> Shareable:
    return DXO(DataKind.WEIGHTS, data=params, meta=META | meta).to_shareable()


def names_of_trained(executor: FederatedExecutor) -> list[str]:
    return [name for name, _ in described_network(executor.settings.network).named_parameters()]


@pytest.mark.parametrize(("precision", "at_most"), [("bf16", 0.55), ("int8", 0.3)])
def test_nvflares_message_is_so_much_smaller(tmp_path: Path, precision: UpdatePrecision, at_most: float) -> None:
    fobs.register(TensorDecomposer)
    sizes = []
    for each in ("fp32", precision):
        executor = executor_of(each, FEATURES)
        sizes.append(len(fobs.dumps(leaving(executor, context(tmp_path), model(trained_from(received_by(executor)))))))
    assert sizes[0] > 4_500_000
    assert 0.2 < sizes[1] / sizes[0] < at_most


def test_in_full_precision_the_model_leaves_as_it_was_trained(tmp_path: Path) -> None:
    executor = executor_of("fp32")
    params = trained_from(received_by(executor))
    sent = from_shareable(leaving(executor, context(tmp_path), model(params))).data
    assert all(sent[name] is params[name] for name in params)
    assert not list(tmp_path.rglob(RESIDUALS_FOLDER))


def with_noise(**changes: Any) -> PrivacyFilter:
    made = PrivacyFilter(**{"clip_norm": 1.0, "noise_multiplier": 0.01} | changes)
    generator = torch.Generator().manual_seed(5)
    made.random_bytes = lambda number: bytes(
        torch.randint(256, (number,), generator=generator, dtype=torch.uint8).tolist()
    )
    return made


@pytest.mark.parametrize("order", list(itertools.permutations(["noise", "exit"])))
def test_rounding_is_of_what_noise_for_privacy_has_left_whatever_the_sites_order(
    tmp_path: Path, order: Sequence[str]
) -> None:
    """The site's filters with noise of the same bits, in full precision and in int8."""
    sent = {}
    for precision in ("fp32", "int8"):
        (tmp_path / precision).mkdir()
        scope = [{"noise": with_noise, "exit": OutboundFilter}[name]() for name in order]
        scope.append(StatisticsPrivacyFilter(noise_multiplier=4.0))
        executor = executor_of(precision)
        reference = received_by(executor)
        trained = names_of_trained(executor)
        dxo = from_shareable(leaving(executor, context(tmp_path / precision, scope), model(trained_from(reference))))
        assert dxo.meta["privacy_epsilon"] > 0
        sent[precision] = dxo.data
    assert message_refusal(sent["int8"], reference, "int8", trained) is None
    assert float((sent["fp32"]["final_conv.weight"] - reference["final_conv.weight"]).std()) > 0.005
    back = QuantisedUpdate(sent["int8"], reference, trained)
    for name, noisy in sent["fp32"].items():
        exact = name not in trained or noisy.ndim == 1
        largest = float((noisy.double() - reference[name].double()).abs().max())
        assert float((back[name].double() - noisy.double()).abs().max()) <= (0.0 if exact else largest / 253 + 1e-7)


def test_a_training_that_failed_leaves_in_the_same_form_where_updates_are_private(tmp_path: Path) -> None:
    executor = executor_of("int8")
    made = context(tmp_path, [with_noise()])

    class Failing(Answering):
        def answer(self, *arguments: Any, **options: Any) -> Shareable:
            made.set_prop(FIELDS_WITHOUT_MODEL, META, private=True, sticky=False)
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)

    failing = Failing(executor.settings.model_dump(mode="json"))
    sent = from_shareable(leaving(failing, made, Shareable())).data
    assert message_refusal(sent, received_by(executor), "int8", names_of_trained(executor)) is None


def test_noise_after_rounding_is_refused(tmp_path: Path) -> None:
    executor = executor_of("int8")
    with pytest.raises(OutboundError, match="quantised already"):
        leaving(executor, context(tmp_path), model(trained_from(received_by(executor))), with_noise())


def test_a_second_filter_of_the_job_takes_the_message_as_it_is(tmp_path: Path) -> None:
    executor = executor_of("int8")
    sent = leaving(executor, context(tmp_path), model(trained_from(received_by(executor))), OutboundFilter())
    assert SCALES in from_shareable(sent).data
    assert len(list(tmp_path.rglob("round_*.pt"))) == 1


def test_failed_trainings_and_other_tasks_leave_as_they_are(tmp_path: Path) -> None:
    executor = executor_of("int8")
    failed = make_reply(ReturnCode.EXECUTION_EXCEPTION)
    assert leaving(executor, context(tmp_path), failed) is failed
    scores = DXO(DataKind.METRICS, data={"num_samples": 3}).to_shareable()
    assert from_shareable(leaving(executor, context(tmp_path, task=VALIDATE), scores)).data == {"num_samples": 3}
    assert not list(tmp_path.rglob(RESIDUALS_FOLDER))


def test_the_received_model_of_a_task_is_the_reference(tmp_path: Path) -> None:
    executor, made = executor_of("int8"), context(tmp_path)
    reference = received_by(executor)
    sent = from_shareable(leaving(executor, made, model(dict(reference)))).data
    assert all(torch.equal(made.get_prop(RECEIVED_MODEL)[name], value) for name, value in reference.items())
    assert not sent["final_conv.weight"].any()
