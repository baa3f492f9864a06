"""Start weights from a bundle or a file: the tensors that fit, and nothing else."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from fedannot.custom.methods.fedavg.averaging_settings import ControlledNetworkSettings
from fedannot.custom.methods.fedcurv.settings import CurvatureNetworkSettings
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.start_weights import read_start_weights
from fedannot.custom.settings import NetworkSettings
from fedannot.transforms.errors import DataError

SMALL = {"features": (4, 4, 8, 8, 8, 4)}


def weights(value: float = 0.5, **changes: Any) -> dict[str, torch.Tensor]:
    state = described_network(NetworkSettings(**(SMALL | changes))).state_dict()
    # The counters of batches are whole numbers.
    return {name: torch.full_like(tensor, value if tensor.is_floating_point() else 3) for name, tensor in state.items()}


@pytest.fixture
def start() -> dict[str, torch.Tensor]:
    return {name: torch.zeros_like(tensor) for name, tensor in weights().items()}


@pytest.mark.parametrize("key", [None, "model", "state_dict"])
def test_a_file_and_a_bundle_give_the_same_weights(
    key: str | None, start: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    (tmp_path / "bundle" / "models").mkdir(parents=True)
    file = tmp_path / "bundle" / "models" / "model.pt"
    stored = {f"module.{name}": tensor for name, tensor in weights().items()} if key == "state_dict" else weights()
    torch.save(stored if key is None else {key: stored}, file)
    for source in (file, tmp_path / "bundle"):
        result = read_start_weights(source, start)
        assert list(result) == list(start)
        assert all(torch.equal(result[name], tensor) for name, tensor in weights().items())
        assert [tensor.dtype for tensor in result.values()] == [tensor.dtype for tensor in start.values()]
    assert all(not bool(tensor.any()) for tensor in start.values()), "what was given is not changed"


def test_of_a_bundle_only_the_weights_are_read(start: dict[str, torch.Tensor], tmp_path: Path) -> None:
    """A configuration that would leave a trace, and TorchScript that is none."""
    for folder in ("models", "configs"):
        (tmp_path / folder).mkdir()
    trace = tmp_path / "trace"
    torch.save(weights(), tmp_path / "models" / "model.pt")
    (tmp_path / "models" / "model.ts").write_bytes(b"no TorchScript")
    for name in ("inference.json", "metadata.json", "train.json"):
        expression = f'{{"run": ["$open({str(trace)!r}, \'w\')"], "imports": ["$open({str(trace)!r}, \'w\')"]}}'
        (tmp_path / "configs" / name).write_text(expression, encoding="utf-8")
    read_start_weights(tmp_path, start)
    assert not trace.exists()


class Trap:
    """Writes a file when it is unpickled without care."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return open, (str(self.file), "w")


def test_nothing_is_run_by_reading(start: dict[str, torch.Tensor], tmp_path: Path) -> None:
    torch.save(weights() | {"trap": Trap(tmp_path / "sprung")}, tmp_path / "model.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    for name in ("model.pt", "plain.pt"):
        with pytest.raises(DataError, match=rf"{name}: is no checkpoint that can be read \(UnpicklingError\)"):
            read_start_weights(tmp_path / name, start)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("kind", [CurvatureNetworkSettings, ControlledNetworkSettings])
def test_what_fedcurv_and_scaffold_remember_restarts(kind: type[NetworkSettings], tmp_path: Path) -> None:
    start = described_network(kind(**SMALL)).state_dict()
    assert start.keys() > weights().keys()
    torch.save(weights(), tmp_path / "model.pt")
    result = read_start_weights(tmp_path / "model.pt", start)
    assert list(result) == list(start)
    for name, tensor in result.items():
        expected = weights().get(name, start[name])
        assert torch.equal(tensor, expected)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([1, 2], "holds list; expected a state dict of tensors"),
        (weights(num_classes=2), r"of another shape \['final_conv.bias', 'final_conv.weight'\] \(.* 0, 0 and 2\)"),
        (weights() | {"more": torch.zeros(1)}, r"unknown \['more'\]"),
        ({}, r"does not fit the network; missing \['conv_0"),
        (weights(torch.nan), r"values that are not finite in \['conv_0"),
        ({name: value.double() + 1e300 for name, value in weights().items()}, r"not finite in \['conv_0"),
    ],
    ids=["no state dict", "other classes", "more", "nothing", "not finite", "too large for float32"],
)
def test_weights_that_do_not_fit_are_refused(
    content: Any, reason: str, start: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    torch.save(content, tmp_path / "model.pt")
    with pytest.raises(DataError, match=rf"model\.pt: .*{reason}"):
        read_start_weights(tmp_path / "model.pt", start)


def test_a_folder_without_weights_is_named(start: dict[str, torch.Tensor], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"models/model\.pt: found no such file; expected as start model a state dict"):
        read_start_weights(tmp_path, start)
