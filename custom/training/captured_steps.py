"""Steps of training on a GPU that are recorded once and replayed for every batch, site and round (CUDA graphs).

A step of a small network is hundreds of short kernels, and to launch them one by one takes longer than they run. So a
step is recorded as a graph, with all its memory, and is launched as one from then on. A graph reads and writes fixed
memory. Therefore a network of its own is trained: received weights are copied into it, and trained ones out of it.
"""

import copy
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from torch import nn

from ..networks.copying import is_unchanging, network_copy
from ..networks.precision import computed_precision
from ..networks.received import start_network_of
from ..settings import ClassifierTrainingSettings, TrainingSettings
from .batch import Batch
from .objectives import Objective, Step, fixed_tensors, objective_form
from .optimizers import RECORDED_OPTIMIZERS, build_recorded_optimizer, set_learning_rate

# PyTorch asks for a few steps before a recording: memory is taken and kernels are chosen in the first ones.
_STEPS_BEFORE = 3
# A recording keeps the memory of its step. Sites end epochs with batches of many sizes; further ones are not recorded.
_MOST_RECORDINGS = 8
# The last of the steps before are timed. A GPU that computes for longer than it is given work does not wait for it.
_LAUNCHING = 0.6
# A module's own dictionaries of what is in the state dict, and of its parts.
_OF_STATE = ("_parameters", "_buffers", "_modules")

Replay = Callable[[], None]


@dataclass
class _OfShapes:
    """What is known of batches of certain shapes.

    Attributes:
        steps: how many were trained on without a recording.
        shares: part of such a step's time in which the GPU is given its work.
        replay: makes the recorded step of a batch; None before it is recorded.
    """

    steps: int = 0
    shares: list[float] = field(default_factory=list)
    replay: Callable[[Batch], None] | None = None


class CapturedSteps:
    """Trains a network of its own, which begins each time as another one and ends in it.

    The first steps of each shape of batches are made one by one. If launching takes most of their time, the next one is
    recorded, and is replayed from then on. If not, as with large patches, steps stay as they are and take no memory.

    Args:
        network: whose structure is trained, on a GPU; it is copied.
        objective: what is made small, of a known :func:`fedannot.custom.training.objectives.objective_form`; copied.
        training: the optimizer's settings.

    Raises:
        ValueError: if the optimizer cannot be recorded.
    """

    def __init__(
        self, network: nn.Module, objective: Objective, training: TrainingSettings | ClassifierTrainingSettings
    ) -> None:
        self.network = network_copy(network)
        # Others may still train with theirs when what it compares with is written over.
        self._objective = copy.deepcopy(objective)
        self._clipping = training.gradient_clipping
        self._optimizer = build_recorded_optimizer(self.network, training)
        self._learning_rate: float | None = None
        self._state = _state(self.network)
        self.total_loss = torch.zeros((), device=self._state[0].device)
        self._by_shapes: dict[Hashable, _OfShapes] = {}

    @torch.no_grad()
    def begin(self, network: nn.Module, objective: Objective) -> None:
        """Take over a network's weights, and what an objective compares with; the optimizer is as new.

        Args:
            network: of the same structure.
            objective: that computes the same.
        """
        _copy(self._state, _state(network))
        _copy(fixed_tensors(self._objective), fixed_tensors(objective))
        values = [value for of_one in self._optimizer.state.values() for value in of_one.values()]
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        if tensors:
            torch._foreach_zero_(tensors)
        self.total_loss.zero_()

    def set_learning_rate(self, learning_rate: float) -> None:
        """Set the learning rate of the next step."""
        if learning_rate != self._learning_rate:
            set_learning_rate(self._optimizer, learning_rate)
            self._learning_rate = learning_rate

    def step(self, batch: Batch, step: Step) -> None:
        """Make a step; see :class:`fedannot.custom.training.steps.Steps`."""
        shapes = (batch.images.shape, batch.images.dtype, batch.labels.shape, batch.labels.dtype)
        known = self._by_shapes.setdefault(shapes, _OfShapes())
        if known.replay is None and self._is_worth_recording(known):
            known.replay = self._recorded(batch, step)
        if known.replay is None:
            self._make_timed(known, batch, step)
            return
        known.replay(batch)

    def _is_worth_recording(self, known: _OfShapes) -> bool:
        if known.steps < _STEPS_BEFORE or min(known.shares) < _LAUNCHING:
            return False
        return sum(of_shapes.replay is not None for of_shapes in self._by_shapes.values()) < _MOST_RECORDINGS

    @torch.no_grad()
    def end(self, network: nn.Module) -> None:
        """Give the trained weights to a network, and wait until it has them: another thread may begin at once."""
        _copy(_state(network), self._state)
        synchronise(self._state[0].device)

    def _make(self, batch: Batch, step: Step) -> None:
        """One step, of which all that is computed is on the GPU."""
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._objective(self.network, batch, step)
        loss.backward()  # type: ignore[no-untyped-call]
        if self._clipping is not None:
            for group in self._optimizer.param_groups:
                nn.utils.clip_grad_norm_(group["params"], self._clipping)
        self._optimizer.step()
        self.total_loss += loss.detach().float() * len(batch.images)

    def _make_timed(self, known: _OfShapes, batch: Batch, step: Step) -> None:
        known.steps += 1
        if not 1 < known.steps <= _STEPS_BEFORE:
            self._make(batch, step)
            return
        synchronise(batch.images.device)
        began = time.perf_counter()
        self._make(batch, step)
        launched = time.perf_counter()
        synchronise(batch.images.device)
        known.shares.append((launched - began) / (time.perf_counter() - began))

    def _recorded(self, batch: Batch, step: Step) -> Callable[[Batch], None]:
        """Record a step on batches of such shapes, without making it, and return what makes it."""
        read = Batch(batch.images.clone(), batch.labels.clone(), batch.samples)
        replay = recorded(lambda: self._make(read, step), batch.images.device)

        def of(another: Batch) -> None:
            read.images.copy_(another.images)
            read.labels.copy_(another.labels)
            replay()

        return of


def recorded(make_step: Replay, device: torch.device) -> Replay:
    """Record what is launched on a GPU, and return what launches it again; nothing is computed yet.

    Args:
        make_step: launches it, in memory that it takes itself or that stays.
        device: the GPU.
    """
    graph = torch.cuda.CUDAGraph()
    synchronise(device)
    # Other threads may take memory meanwhile, and launch what is not recorded; PyTorch replays nothing meanwhile.
    with _ONE_AT_A_TIME, torch.cuda.graph(graph, capture_error_mode="thread_local"):
        make_step()

    def replay() -> None:
        with _ONE_AT_A_TIME:
            graph.replay()

    return replay


def synchronise(device: torch.device) -> None:
    """Wait until a GPU has done what it was given by this thread."""
    torch.cuda.current_stream(device).synchronize()


@contextmanager
def captured_steps(
    network: nn.Module,
    objective: Objective,
    training: TrainingSettings | ClassifierTrainingSettings,
    learning_rate: float,
) -> Iterator[CapturedSteps | None]:
    """Give what trains a network by recorded steps, and the trained weights to the network after the block.

    Each training at work at the same time has one of its own. They are kept, with their recordings, while networks of
    the same settings are trained.

    Args:
        network: what is trained.
        objective: what is made small.
        training: the settings.
        learning_rate: of the first step.

    Yields:
        None where steps cannot be recorded: on a CPU, in float16, of an optimizer, objective or network of one's own,
        of a network that was changed since it was received, or of one with tensors besides those of its state dict.
    """
    start, form = start_network_of(network), objective_form(objective)
    if start is None or form is None or not _is_recordable(network, start, training):
        yield None
        return
    key = form, training.model_dump_json()
    steps = _kept.take(start, key) or CapturedSteps(network, objective, training)
    steps.begin(network, objective)
    steps.set_learning_rate(learning_rate)
    yield steps
    # After an error nobody uses them again: what they hold is not known.
    steps.end(network)
    _kept.give_back(start, key, steps)


def _is_recordable(
    network: nn.Module, start: nn.Module, training: TrainingSettings | ClassifierTrainingSettings
) -> bool:
    device = next(network.parameters()).device
    return (
        is_recording_device(device)
        and training.optimizer in RECORDED_OPTIMIZERS
        and computed_precision(training.precision, device) != "fp16"
        and _structure(network) == _structure(start)
        and _is_its_state(network)
    )


def is_recording_device(device: torch.device) -> bool:
    """Return whether steps can be recorded on a device."""
    return device.type == "cuda"


def _structure(network: nn.Module) -> Hashable:
    """What a step does besides the values in a network: its modules, what is called at them, and what is trained.

    What a module is told by plain attributes counts, such as a rate of dropout, and that it has others. All are put
    into training mode.
    """
    return tuple(
        (
            type(module),
            len(module._forward_pre_hooks),
            len(module._forward_hooks),
            len(module._backward_pre_hooks),
            len(module._backward_hooks),
            tuple(parameter.requires_grad for parameter in module.parameters(recurse=False)),
            tuple(
                (name, value if is_unchanging(value) else type(value))
                for name, value in vars(module).items()
                if not name.startswith("_") and name != "training"
            ),
        )
        for module in network.modules()
    )


def _is_its_state(network: nn.Module) -> bool:
    """Whether the state dict has every tensor of a network: others would stay those of the site before."""
    own = [*network.named_parameters(remove_duplicate=False), *network.named_buffers(remove_duplicate=False)]
    in_state = set(map(id, network.state_dict(keep_vars=True).values()))
    return in_state == {id(tensor) for _, tensor in own} and not any(
        _has_tensors(value)
        for module in network.modules()
        for name, value in vars(module).items()
        if name not in _OF_STATE
    )


def _has_tensors(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_tensors, value.values()))
    if isinstance(value, list | tuple | set):
        return any(map(_has_tensors, value))
    return isinstance(value, torch.Tensor)


def _state(network: nn.Module) -> list[torch.Tensor]:
    """The parameters and buffers themselves."""
    return list(network.state_dict(keep_vars=True).values())


def _copy(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    """Copy values in a few launches."""
    if targets:
        torch._foreach_copy_(list(targets), list(sources))


class _Kept:
    """Captured steps that nobody uses now, for each structure of a network; they go when the network goes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: WeakKeyDictionary[nn.Module, dict[Hashable, list[CapturedSteps]]] = WeakKeyDictionary()

    def take(self, start: nn.Module, key: Hashable) -> CapturedSteps | None:
        with self._lock:
            waiting = self._steps.setdefault(start, {}).get(key)
            return waiting.pop() if waiting else None

    def give_back(self, start: nn.Module, key: Hashable, steps: CapturedSteps) -> None:
        with self._lock:
            of_start = self._steps.setdefault(start, {})
            if key not in of_start:
                # Of other settings than before: the earlier ones are another job's, or of another part of the rounds.
                of_start.clear()
            of_start.setdefault(key, []).append(steps)


_ONE_AT_A_TIME = threading.Lock()
_kept = _Kept()
