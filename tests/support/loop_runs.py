"""A run's course in a folder of its own, with a network of one weight, and what it leaves there."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedannot.custom.aggregation.weighting import LayerWeights
from fedannot.custom.interface.method import ServerMethod
from fedannot.custom.interface.views import Round, WaitingModels, WeightsRule
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.outbound.fields import OutboundField
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.run.reading import METRICS_FILE
from fedannot.custom.run.round_loop import RoundLoop
from fedannot.custom.run.state import SUMMARY_FILE
from fedannot.custom.run.transport import RunContext

from .memory_link import MemoryLink

BLOCKS = ("stem", "head")
MEASURE = "measure"
OUTBOUND_FIELDS = (
    OutboundField("num_samples", (MEASURE,), "count", "the size of the site's data"),
    OutboundField("contrast", (MEASURE,), "numbers", "how clear its images are", "num_measured", optional="contrast"),
    OutboundField("num_measured", (MEASURE,), "counts", "patients behind it", optional="contrast"),
)
SCORES = {"num_samples": 5, "dice": [0.5], "hd95": [4.0], "num_defined": [5], "num_patients": 5}
SCORES |= {"num_class_patients": [5], "num_distance_patients": [5], "num_class_cases": [5]}
SCORES |= {"left_empty": [math.nan], "num_empty_patients": [0]}


class Bright(nn.Module):
    """Finds something where an image is bright; its normalisation is there for its running statistics."""

    layer_blocks = BLOCKS

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(1, 1, bias=False)
        self.head = nn.BatchNorm1d(1)
        nn.init.zeros_(self.stem.weight)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        result = self.stem.weight.view(1, 1, 1, 1) * images
        return torch.cat((torch.zeros_like(result), result), dim=1)


class Recorded(ServerMethod):
    """Federated averaging that notes what it is asked."""

    is_scored = True
    says_more = False
    restarted: frozenset[int] = frozenset()
    round_scalars = ("calls",)

    def __init__(self, settings: FedAvgSettings) -> None:
        super().__init__(settings)
        self.calls: list[str] = []
        self.seen: dict[int, dict[str, int]] = {}
        self.before: Callable[[Round], None] = lambda _: None
        self.given: Callable[[Round], LayerWeights | None] = lambda _: None
        self.rule: Callable[[Round, WaitingModels], LayerWeights] | None = None
        self.left_out: frozenset[str] | None = None
        self.trained: Callable[[Round], None] = lambda _: None

    @property
    def is_scored_at_server(self) -> bool:
        return self.is_scored

    def stage(self, this_round: Round) -> str:
        return f"stage {this_round.number}"

    def before_round(self, this_round: Round) -> None:
        self.calls.append(f"before {this_round.number}")
        self.seen[this_round.number] = dict(this_round.num_samples)
        self.before(this_round)

    def message(self, this_round: Round) -> dict[str, Any]:
        return {"called": len(self.calls)}

    def weights(self, this_round: Round) -> LayerWeights | None:
        return self.given(this_round)

    def weights_rule(self, this_round: Round) -> WeightsRule | None:
        rule = self.rule
        return None if rule is None else (lambda models: rule(this_round, models))

    def second_average_without(self, this_round: Round) -> frozenset[str] | None:
        return self.left_out

    def after_training(self, this_round: Round) -> None:
        self.calls.append(f"trained {this_round.number} by {sorted(this_round.reports)}")
        self.trained(this_round)

    def after_rounds(self, this_round: Round) -> bool:
        self.calls.append(f"after {this_round.number}")
        return self.says_more

    def restarts(self, this_round: Round) -> bool:
        return this_round.number in self.restarted

    def record(self, this_round: Round) -> dict[str, Any]:
        return {"calls": len(self.calls)}

    def state(self) -> dict[str, Any]:
        return {"calls": list(self.calls)}

    def restore(self, state: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> None:
        self.calls = [*state["calls"], f"restored after {len(history)}"]

    def describe(self, this_round: Round) -> dict[str, Any]:
        return {"described": this_round.number}


class Run:
    """A course in its own folder, and what it left there."""

    def __init__(self, folder: Path, link: MemoryLink, **settings: Any) -> None:
        self.folder, self.link = folder, link
        for needed in ("run", "local"):
            (folder / needed).mkdir(parents=True)
        values = {"rounds": 2, "embedded": {"test_images": 2}} | settings
        self.settings = FedAvgSettings.model_validate(values)
        self.method = Recorded(self.settings)
        self.course = RoundLoop(self.settings, self.method, OutboundRegistry(OUTBOUND_FIELDS), link)

    def begin(self, **changes: Any) -> "Run":
        network = Bright()
        params = {name: value.clone() for name, value in network.state_dict().items()}
        given = {"network": network, "params": params, "run_folder": self.folder / "run"}
        given |= {"private_folder": self.folder / "private"}
        given |= {"config_folder": self.folder / "local", "job_id": "job-1"}
        self.course.run(RunContext(**(given | changes)))
        return self

    @property
    def stem(self) -> float:
        return float(self.course.state.params["stem.weight"])

    @property
    def records(self) -> list[dict[str, Any]]:
        lines = (self.folder / "run" / METRICS_FILE).read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    @property
    def summary(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads((self.folder / "run" / SUMMARY_FILE).read_text(encoding="utf-8"))
        return result
