"""How the steps of a round are made: their number, their rates, clipping, precision, and an optimizer that is kept."""

from types import SimpleNamespace

import pytest
import torch
from support.pictures import make_data
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.methods.audit.folds_site import FoldsSite
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.networks import precision as precision_module
from fedannot.custom.networks.described import described_network
from fedannot.custom.settings import TrainingSettings
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.batches import ClassBatches, PatchBatches, SampleBatches
from fedannot.custom.training.kept_optimizer import OPTIMIZER_FOLDER
from fedannot.custom.training.loop import train
from fedannot.custom.training.schedules import LearningRate
from fedannot.custom.training.steps import loss_scaler

CPU = torch.device("cpu")
IMAGES = torch.randn(7, 1, 4, 4, generator=torch.Generator().manual_seed(0))
LABELS = (IMAGES[:, 0] > 0).long()
TYPES = {"fp32": torch.float32, "auto": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SGD = {"optimizer": "sgd", "momentum": 0.99, "nesterov": True, "weight_decay": 3e-5, "learning_rate": 0.05}


def pixel_network():
    torch.manual_seed(3)
    return nn.Conv2d(1, 2, 1)


def squared(network, batch, step):
    """An objective with large gradients."""
    del step
    return (100 * (network(batch.images)[:, 1] - batch.labels[:, 0])).pow(2).mean()


def trained(training, learning_rate=0.05, seed=5, batches=None, network=None, kept=None):
    network = pixel_network() if network is None else network
    batches = SampleBatches(IMAGES, LABELS, training.batch_size, CPU) if batches is None else batches
    outcome = train(network, batches, squared, training, learning_rate=learning_rate, seed=seed, kept_optimizer=kept)
    return network, outcome


def drawn(steps, batch_size=2, seed=5):
    """The batches of some steps, as a plain loop draws them."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        for chosen in torch.randperm(7, generator=generator).split(batch_size):
            if not steps:
                return
            steps -= 1
            yield Batch(IMAGES[chosen], LABELS[chosen][:, None], chosen)


def plain(optimizer_of, batches, before_step=lambda number, network, optimizer: None):
    network = pixel_network()
    optimizer = optimizer_of(network.parameters())
    for number, batch in enumerate(batches):
        optimizer.zero_grad()
        squared(network, batch, None).backward()
        before_step(number, network, optimizer)
        optimizer.step()
    return network


def same(first, second):
    return all(map(torch.equal, first.state_dict().values(), second.state_dict().values()))


@pytest.mark.parametrize("steps", [1, 3, 4, 9])
def test_a_round_has_exactly_as_many_steps_as_asked(steps):
    """Of four batches of 2, 2, 2 and 1 samples an epoch."""
    training = TrainingSettings(batch_size=2, local_steps=steps, local_epochs=50, optimizer="sgd", momentum=0)
    network, outcome = trained(training, learning_rate=1e-4)
    expected = plain(
        lambda parameters: torch.optim.SGD(parameters, lr=1e-4),
        drawn(steps),
    )
    assert outcome.steps == steps
    assert same(network, expected)
    frozen = pixel_network()
    losses = [(float(squared(frozen, batch, None).detach()), len(batch.images)) for batch in drawn(steps)]
    mean = sum(loss * size for loss, size in losses) / sum(size for _, size in losses)
    _, outcome = trained(training, learning_rate=1e-30)
    assert outcome.mean_loss == pytest.approx(mean, rel=1e-5)
    assert outcome.samples == {int(sample) for batch in drawn(steps) for sample in batch.samples}


def test_patches_are_drawn_on_until_the_steps_are_done():
    images = torch.randn(3, 1, 1, 4, 4, 4)
    volumes = [SimpleNamespace(image=image, label=torch.ones(1, 4, 4, 4, dtype=torch.uint8)) for image in images]
    batches = PatchBatches(volumes, (2, 2, 2), 2, 4, CPU)
    training = TrainingSettings(batch_size=4, local_steps=5)
    network, seen = nn.Conv3d(1, 2, 1), []

    def objective(network, batch, step):
        seen.append((len(batch.images), step.number, step.epoch, step.epochs))
        return network(batch.images).mean()

    outcome = train(network, batches, objective, training, learning_rate=0.1, seed=0)
    assert batches.steps_per_epoch == 2
    assert seen == [(4, 0, 0, 3), (2, 1, 0, 3), (4, 2, 1, 3), (2, 3, 1, 3), (4, 4, 2, 3)]
    assert outcome.steps == 5


def test_an_epoch_has_the_steps_that_it_says():
    images = torch.zeros(9, 3, 8, 8)
    batches = ClassBatches(images, torch.zeros(9), 4, CPU, augmentation=False)
    assert batches.steps_per_epoch == len(list(batches.epoch(torch.Generator()))) == 2, "the ninth goes along"


def test_the_rate_of_every_step_is_the_schedules():
    training = TrainingSettings(batch_size=2, local_epochs=2, schedule="polynomial", optimizer="sgd", momentum=0)
    network, _ = trained(training, learning_rate=LearningRate(training, round_number=2, rounds=3))
    rates = [5e-3 * (1 - (8 + step) / 24) ** 0.9 for step in range(8)]

    def set_rate(number, network, optimizer):
        del network
        optimizer.param_groups[0]["lr"] = rates[number]

    assert same(network, plain(lambda parameters: torch.optim.SGD(parameters, lr=1.0), drawn(8), set_rate))


def test_gradients_are_clipped_as_pytorch_clips_them():
    training = TrainingSettings(batch_size=2, local_steps=6, gradient_clipping=12, optimizer="sgd", momentum=0.9)
    network, _ = trained(training)

    def clip(number, network, optimizer):
        del number, optimizer
        assert nn.utils.clip_grad_norm_(network.parameters(), 12) > 12, "something is clipped"

    expected = plain(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9), drawn(6), clip)
    assert same(network, expected)


def test_the_network_alone_computes_in_the_precision_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(precision_module, "_has_bfloat16_instructions", lambda: False)
    seen = {}

    class Looking(nn.Conv2d):
        def forward(self, images):
            outputs = super().forward(images)
            seen["type"] = outputs.dtype
            return outputs

    for precision, expected in TYPES.items():
        trained(TrainingSettings(batch_size=2, local_steps=1, precision=precision), network=Looking(1, 2, 1))
        assert seen["type"] == expected
    assert TrainingSettings().precision == "fp32"
    monkeypatch.setattr(precision_module, "_has_bfloat16_instructions", lambda: True)
    trained(TrainingSettings(batch_size=2, local_steps=1, precision="auto"), network=Looking(1, 2, 1))
    assert seen["type"] == torch.bfloat16


def test_former_names_of_precisions():
    with pytest.warns(FutureWarning, match="precision = mixed"):
        assert TrainingSettings(precision="mixed").precision == "bf16"


def test_the_scale_of_a_loss_goes_on_in_the_next_round(tmp_path):
    """A step whose gradient overflows float16 is left out, and halves the scale of 2^16."""
    settings, site = settings_of(precision="fp16", keep_optimizer=True, **SGD), HandmadeSite(tmp_path, DATA)

    class Overflowing(FedAvgSite):
        def objective(self, network, site, dice, targets=None):
            del site, dice, targets
            return lambda network, batch, step: 1e3 * squared(network, batch, step)

    network = rounds_of(lambda: Overflowing(settings), site, pixel_network(), [1, 2])
    scales = []
    for round_number, precision in ((2, "fp16"), (3, "fp16"), (3, "fp32")):
        view = site.view(OfPixels(settings), round_number)
        kept, scaler = OfPixels(settings)._kept_optimizer(view, "shared"), loss_scaler(network, precision)
        kept.restore(torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.99), scaler)
        scales.append(scaler.get_scale())
    assert 1 < scales[1] < scales[0] < 2**16
    assert scales[2] == 1


def settings_of(**training):
    values = {"batch_size": 2, "local_steps": 3, "loss": "ce", **training}
    return FedAvgSettings.model_validate(
        {"network": {"features": (4, 4, 8, 8, 8, 4)}, "rounds": 4, "training": values, "keep_rounds": [1]}
    )


class OfPixels(FedAvgSite):
    """Trains the objective above on the pictures above."""

    def batches(self, data, network, targets=None):
        del data, network, targets
        return SampleBatches(IMAGES, LABELS, self.settings.training.batch_size, CPU)

    def objective(self, network, site, dice, targets=None):
        del network, site, dice, targets
        return squared


DATA = make_data([(1,)] * 7)


def rounds_of(method_of, site, network, numbers):
    for number in numbers:
        method = method_of()
        method.train(network, site.view(method, number))
    return network


def test_two_rounds_with_a_kept_optimizer_are_one_loop_to_the_last_bit(tmp_path):
    """Nesterov's momentum goes on; the site's method is made again for every task."""
    settings, site = settings_of(keep_optimizer=True, **SGD), HandmadeSite(tmp_path, DATA)
    network = rounds_of(lambda: OfPixels(settings), site, pixel_network(), [1, 2])
    seeds = [site.view(OfPixels(settings), number).training_seed for number in (1, 2)]
    batches = [batch for seed in seeds for batch in drawn(3, seed=seed)]
    options = {"lr": 0.05, "momentum": 0.99, "nesterov": True, "weight_decay": 3e-5}
    assert same(network, plain(lambda parameters: torch.optim.SGD(parameters, **options), batches))
    forgetful = settings_of(**SGD)
    other = rounds_of(lambda: OfPixels(forgetful), HandmadeSite(tmp_path / "b", DATA), pixel_network(), [1, 2])
    assert not same(network, other)
    assert not (tmp_path / "b/run" / OPTIMIZER_FOLDER).exists()


@pytest.mark.parametrize("training", [SGD, {"optimizer": "adam", "learning_rate": 0.05}])
def test_a_round_that_is_done_once_more_has_the_same_bits(tmp_path, training):
    """As after a restart in the middle of it, also in a run that goes on with another's files."""
    settings, site = settings_of(keep_optimizer=True, **training), HandmadeSite(tmp_path, DATA)
    after_two = rounds_of(lambda: OfPixels(settings), site, pixel_network(), [1, 2])
    start = {name: value.clone() for name, value in after_two.state_dict().items()}
    expected = rounds_of(lambda: OfPixels(settings), site, after_two, [3])
    again = pixel_network()
    again.load_state_dict(start)
    assert same(rounds_of(lambda: OfPixels(settings), site, again, [3]), expected)
    continued, method = HandmadeSite(tmp_path / "new", DATA), OfPixels(settings)
    again.load_state_dict(start)
    view = continued.view(method, 3, earlier_folders=[site.run_folder], continued_round=2)
    method.train(again, view)
    assert same(again, expected)
    kept = sorted(file.name for file in (site.run_folder / OPTIMIZER_FOLDER / "shared").iterdir())
    assert kept == ["round_1.pt", "round_2.pt", "round_3.pt"], "the job keeps round 1, restarts need two"
    assert (site.run_folder / OPTIMIZER_FOLDER / "shared/round_3.pt").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("changes", "network", "said"),
    [
        ({"optimizer": "adam"}, pixel_network, "is of SGD, expected Adam"),
        ({}, lambda: nn.Conv2d(1, 2, 3, padding=1), "is of parameters of other shapes"),
    ],
)
def test_a_state_that_does_not_fit_is_left_out_with_a_warning(tmp_path, changes, network, said):
    first, site = settings_of(keep_optimizer=True, **SGD), HandmadeSite(tmp_path, DATA)
    rounds_of(lambda: OfPixels(first), site, pixel_network(), [1])
    second = settings_of(keep_optimizer=True, **SGD | changes)
    torch.manual_seed(4)
    result = rounds_of(lambda: OfPixels(second), site, start := network(), [2])
    assert said in site.said[-1]
    assert "begins with a new optimizer" in site.said[-1]
    assert result is start


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_a_damaged_state_is_left_out_with_a_warning(tmp_path, content):
    settings, site = settings_of(keep_optimizer=True, **SGD), HandmadeSite(tmp_path, DATA)
    rounds_of(lambda: OfPixels(settings), site, network := pixel_network(), [1])
    (site.run_folder / OPTIMIZER_FOLDER / "shared/round_1.pt").write_bytes(content)
    rounds_of(lambda: OfPixels(settings), site, network, [2])
    assert "cannot be read" in site.said[-1]


def test_the_new_options_count_with_a_kept_state(tmp_path):
    """A learning rate of next to nothing moves nothing, whatever the one of the round before was."""
    site = HandmadeSite(tmp_path, DATA)
    network = rounds_of(lambda: OfPixels(settings_of(keep_optimizer=True, **SGD)), site, pixel_network(), [1])
    before = network.weight.detach().clone()
    still = settings_of(keep_optimizer=True, **SGD | {"learning_rate": 1e-30})
    rounds_of(lambda: OfPixels(still), site, network, [2])
    assert torch.equal(network.weight, before)


def test_a_state_that_is_not_finite_is_not_kept(tmp_path):
    settings, site = settings_of(keep_optimizer=True, **SGD | {"learning_rate": 1e30}), HandmadeSite(tmp_path, DATA)
    rounds_of(lambda: OfPixels(settings), site, pixel_network(), [1])
    assert "not finite, and is not kept" in site.said[-1]
    assert not (site.run_folder / OPTIMIZER_FOLDER).exists()


def test_a_new_fold_begins_with_a_new_optimizer():
    """The reference models of an audit have a schedule each."""
    method = FoldsSite.__new__(FoldsSite)
    method.settings = SimpleNamespace(rounds_of_fold=3)
    places = [method.schedule_round(SimpleNamespace(round_number=number)) for number in (1, 3, 4, 6, 7)]
    assert places == [(1, 3), (3, 3), (1, 3), (3, 3), (1, 3)]


def test_what_a_network_of_the_settings_trains_depends_on_the_precision_alone(tmp_path):
    """The same bits twice in bfloat16, and others than in float32."""
    results = {}
    for number, precision in enumerate(("bf16", "bf16", "fp32")):
        settings = settings_of(precision=precision, local_steps=1)
        method, network = FedAvgSite(settings), described_network(settings.network)
        method.train(network, HandmadeSite(tmp_path / str(number), DATA).view(method))
        results[number] = network
    assert same(results[0], results[1])
    assert not same(results[1], results[2])
