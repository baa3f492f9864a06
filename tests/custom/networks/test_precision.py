"""In which precision networks compute, and where that ends."""

from pathlib import Path

import pytest
import torch
from torch import nn

from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.networks import precision as module
from fedannot.custom.networks.building import build_network
from fedannot.custom.networks.outputs import all_outputs, give_main_output
from fedannot.custom.networks.precision import computed_precision, computing, significand_bits
from fedannot.custom.training.losses import segmentation_loss

CPU = torch.device("cpu")
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
FLAGS = [
    ({"avx512_bf16": True}, "bf16"),
    ({"amx_bf16": True}, "bf16"),
    # PyTorch computes bfloat16 with these alone, more slowly than float32.
    ({"avx512_f": True, "avx512_bw": True, "avx512_bf16": False}, "fp32"),
    ({}, "fp32"),
]


@pytest.mark.parametrize(("capabilities", "expected"), FLAGS)
def test_auto_follows_the_processors_instructions(monkeypatch, capabilities, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert computed_precision("auto", CPU) == expected
    assert computed_precision("fp16", CPU) == "fp16"


@pytest.mark.parametrize(("is_native", "expected"), [(True, "bf16"), (False, "fp16")])
def test_auto_on_a_gpu(monkeypatch, is_native, expected):
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation: is_native and not including_emulation
    )
    assert computed_precision("auto", torch.device("cuda")) == expected


def test_what_this_processor_says_of_itself_is_what_its_flags_say():
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text(encoding="utf-8").split() if cpuinfo.is_file() else []
    if "avx2" not in flags:
        pytest.skip("not an x86 processor")
    assert module._has_bfloat16_instructions() == any(flag in flags for flag in ("avx512_bf16", "amx_bf16"))


@pytest.mark.parametrize("precision", TYPES)
def test_the_significand_of_a_precision(precision):
    """1 + 2^(1 - bits) is the number after 1."""
    assert 2.0 ** (1 - significand_bits(precision)) == torch.finfo(TYPES[precision]).eps


class Looking(nn.Module):
    """Two layers and a further output, with what types they had."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 2, 1), nn.Conv2d(2, 2, 1)
        self.seen = []

    def forward(self, images):
        hidden = self.first(images)
        outcome = self.second(hidden)
        self.seen += [hidden.dtype, outcome.dtype]
        return [hidden, outcome]


@pytest.mark.parametrize("precision", TYPES)
def test_modules_compute_in_it_and_everything_else_in_float32(precision):
    network = give_main_output(Looking())
    images, matrix = torch.ones(2, 1, 4, 4), torch.ones(3, 3)
    with computing(network, precision):
        outputs = all_outputs(network, images)
        # A product outside the network, as a loss may have.
        assert (matrix @ matrix).dtype == torch.float32
        assert not torch.is_autocast_enabled("cpu")
        # A part of the network that is called by itself.
        assert network.first(images).dtype == torch.float32
    assert network.seen == [TYPES[precision]] * 2
    assert {logits.dtype for logits in (outputs.main, *outputs.further)} == {torch.float32}
    assert outputs.further
    labels = torch.ones(2, 1, 4, 4)
    segmentation_loss("ce_dice")(outputs.main, labels).backward()
    assert {parameter.grad.dtype for parameter in network.parameters()} == {torch.float32}
    network.seen.clear()
    network(images)
    assert network.seen == [torch.float32] * 2, "nothing stays behind"


def test_an_error_in_the_network_leaves_no_precision_behind():
    network = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Conv2d(2, 1, 1))
    with computing(network, "bf16"):
        with pytest.raises(RuntimeError):
            network(torch.ones(1, 1, 2, 2))
        assert not torch.is_autocast_enabled("cpu")
        assert network[0](torch.ones(1, 1, 2, 2)).dtype == torch.float32


@pytest.mark.parametrize("window", [None, (16, 16)])
def test_predictions_are_those_of_plain_autocast(window):
    network, images = build_network(features=(4, 4, 8, 8, 8, 4)), torch.randn(2, 1, 16, 16)
    result = Inference(2, window, precision="bf16").logits(network.eval(), images)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        expected = network(images)
    assert expected.dtype == torch.bfloat16
    assert result.dtype == torch.float32
    assert torch.allclose(result, expected.float(), rtol=0, atol=1e-6 if window is None else 0.02)
    assert not torch.equal(result, Inference(2, window).logits(network, images))
