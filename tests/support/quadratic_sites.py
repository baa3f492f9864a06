"""Sites whose loss is a parabola, with the site's part and the course of rounds as they are in a run."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedannot.custom.corrections.targets import AS_GIVEN, Targets
from fedannot.custom.interface.views import SiteView
from fedannot.custom.methods.fedavg import METHODS
from fedannot.custom.methods.fedavg.averaging_server import AveragingServer
from fedannot.custom.methods.fedavg.averaging_settings import SegmentationAveragingSettings
from fedannot.custom.methods.fedavg.averaging_site import AveragingSite
from fedannot.custom.methods.fedavg.control_variates import with_control_variates
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.records.round_records import RoundRecord
from fedannot.custom.run.round_loop import RoundLoop
from fedannot.custom.run.transport import Reply, Request, RunContext
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.objectives import Objective, Step

from .memory_link import MemoryLink
from .site_views import HandmadeSite

REGISTRY = OutboundRegistry(METHODS[0].outbound_fields)


class Point(nn.Module):
    """One number x, a running statistic and a counter."""

    layer_blocks: tuple[str, ...] = ("x", "mean", "count")

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(1, dtype=torch.float64))
        self.register_buffer("count", torch.tensor(0))


def point(settings: SegmentationAveragingSettings) -> nn.Module:
    network = Point()
    if not settings.network.wrapper:
        return network
    network.layer_blocks = (*Point.layer_blocks, "control_variates")
    return with_control_variates(network)


class OneSample:
    """An epoch of so many batches of one sample."""

    samples_per_epoch = 1

    def __init__(self, steps: int) -> None:
        self.steps_per_epoch = steps

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        del generator
        for _ in range(self.steps_per_epoch):
            yield Batch(torch.zeros(1, 1), torch.zeros(1), torch.zeros(1, dtype=torch.int64))


class ParabolaPart(AveragingSite):
    """The site's part of federated averaging, with a loss a/2 (x − b)² in place of a network's."""

    curvature, centre = 1.0, 0.0

    def targets(self, site: SiteView) -> Targets:
        del site
        return AS_GIVEN

    def batches(self, *given: Any) -> OneSample:
        del given
        return OneSample(self.settings.training.local_steps or 1)


def parabola(part: ParabolaPart, network: nn.Module, *given: Any) -> Objective:
    """In place of ``FedAvgSite.objective``."""
    del network, given

    def objective(network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        del batch, step
        return (part.curvature / 2 * (network.x - part.centre) ** 2).sum()

    return objective


class ParabolaSite:
    """A site with its loss a/2 (x − b)² and so many local steps."""

    def __init__(
        self, folder: Path, settings: SegmentationAveragingSettings, curvature: float, centre: float, **changes: Any
    ) -> None:
        self.name, self.num_samples = folder.name, changes.pop("num_samples", 10)
        training = settings.training.model_copy(update=changes)
        self.settings = settings.model_copy(update={"training": training})
        self.curvature, self.centre = curvature, centre
        self.handmade = HandmadeSite(folder, name=self.name)

    def __call__(self, request: Request) -> Reply:
        if request.task != "train":
            return Reply(self.name, request.round_number, {"num_samples": 0})
        network, part = point(self.settings), ParabolaPart(self.settings)
        network.load_state_dict(request.params)
        part.curvature, part.centre = self.curvature, self.centre
        view = self.handmade.view(part, request.round_number, message=request.message, load=lambda section: None)
        flags = part.training_flags(view)
        trained = part.train(network, view)
        network.mean += self.centre
        network.count += self.num_samples
        fields = {"num_samples": self.num_samples, "num_excluded": 0, "embedded_data": False, **flags, **trained.fields}
        return Reply(self.name, request.round_number, fields, dict(network.state_dict()))


class ParabolaRun:
    """A run of federated averaging over such sites, and what is left of it."""

    def __init__(self, folder: Path, settings: SegmentationAveragingSettings, sites: Sequence[ParabolaSite]) -> None:
        self.folder, self.settings = folder, settings
        self.link = MemoryLink({site.name: site for site in sites})
        self.loop = RoundLoop(settings, AveragingServer(settings), REGISTRY, self.link)

    def begin(self, state: Path | None = None, x: float = 0.0) -> "ParabolaRun":
        for needed in ("run", "local"):
            (self.folder / needed).mkdir(parents=True)
        network = point(self.settings)
        params = {name: value.clone() for name, value in network.state_dict().items()}
        params["x"] += x
        folders = {"run_folder": self.folder / "run", "private_folder": self.folder / "private"}
        self.loop.run(
            RunContext(network, params, **folders, config_folder=self.folder / "local", job_id="j", state=state)
        )
        return self

    @property
    def params(self) -> dict[str, torch.Tensor]:
        return self.loop.state.params

    @property
    def xs(self) -> list[float]:
        """The global x after every round."""
        return [float(model["x"]) for model in self.link.models[: self.settings.rounds]]

    @property
    def records(self) -> list[RoundRecord]:
        return self.loop.state.history
