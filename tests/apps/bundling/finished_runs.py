"""Output folders as runs leave them, without a run: random weights, a summary, the sites' stored models."""

import json
from pathlib import Path
from typing import Any

import torch
from plain_records import record, summary_values

from fedannot.custom.data.description import AnyDescription, ImageDescription, write_site_description
from fedannot.custom.data.federation import FederationDescription, write_federation
from fedannot.custom.methods.lookup import method_of, read_job_settings
from fedannot.custom.methods.personal.settings import PersonalSettings
from fedannot.custom.methods.personal.site import PersonalSite
from fedannot.custom.networks.described import described_network
from fedannot.custom.records.record_lines import write_records
from fedannot.custom.settings import RunSettings

SITES = ("site-1", "site-2")
PICTURES = ImageDescription(classes=("lesion",), labels={0: 0, 1: 1}, channels=1, size=(32, 32))
SMALL_NETWORKS: dict[str, dict[str, Any]] = {
    "decoupled": {"encoder_features": [4, 8], "latent": 3},
}


def settings_of(method: str, task: str = "segmentation", **changes: Any) -> RunSettings:
    network: dict[str, Any] = {"features": [4, 4, 8, 8, 8, 4], **SMALL_NETWORKS.get(method, {})}
    if task == "classification":
        network = {"depth": 10, "widths": [4, 8, 8, 8], "in_channels": 1, "num_classes": 2}
    return read_job_settings({"task": task, "method": method, "rounds": 12, "seed": 3, "network": network} | changes)


def write_run(folder: Path, settings: RunSettings, description: AnyDescription = PICTURES, **of_summary: Any) -> Path:
    """Write the output folder of a run with two sites and return it."""
    for site in SITES:
        (folder / "data" / site).mkdir(parents=True)
        write_site_description(folder / "data" / site, description)
    write_federation(folder / "data", FederationDescription(name="hospitals", task=settings.task, sites=SITES))
    torch.manual_seed(0)
    network = described_network(settings.network)
    torch.save({"model": network.state_dict()}, folder / "model.pt")
    counts = zip(SITES, (30, 10), strict=True)
    summary = {
        "task": settings.task,
        "method": settings.method,
        "seed": settings.seed,
        "rounds_finished": settings.rounds,
        "sites": {site: {"num_samples": count} for site, count in counts},
        "settings": settings.model_dump(mode="json"),
    }
    (folder / "summary.json").write_text(json.dumps(summary_values(**summary | of_summary)), encoding="utf-8")
    main = "dice" if settings.task == "segmentation" else "f1"
    write_records(
        folder / "metrics.jsonl",
        [
            record(1, **{main: None}),
            record(settings.rounds, evaluated_on="test", num_cases=9, **{main: 0.75}),
        ],
    )
    if isinstance(settings, PersonalSettings):
        for number, site in enumerate(SITES):
            _store_model(folder / "run" / site, site, settings, network, seed=number)
    return folder


def _store_model(workspace: Path, site: str, settings: PersonalSettings, shared: torch.nn.Module, seed: int) -> None:
    config = workspace / "simulate_job" / f"app_{site}" / "config"
    config.mkdir(parents=True)
    folder = workspace / "private" / "simulate_job" / "personal"
    folder.mkdir(parents=True)
    # JSON is HOCON.
    (config / "settings.conf").write_text(json.dumps({"settings": settings.model_dump(mode="json")}), encoding="utf-8")
    method = method_of(settings).site_part(settings)
    assert isinstance(method, PersonalSite)
    personal = method.start(shared, seed)
    with torch.no_grad():
        for parameter in personal.parameters():
            parameter.add_(0.1 * (seed + 1))
    content = {"shared": shared.state_dict(), "personal": personal.state_dict(), "round": settings.rounds}
    if settings.own_threshold:
        content["threshold"] = 0.35
    torch.save(content, folder / "local_model.pt")
