"""Stand-ins for the client libraries of MLflow and Weights & Biases, as far as NVFlare's receivers use them.

They keep what they are given in a file, a line each, since one of the receivers works in a process of its own.
"""

import importlib
import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Kept:
    """What a tracking server was given."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def add(self, what: str, **values: Any) -> None:
        """Keep something."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"what": what, **values}) + "\n")

    def of(self, what: str) -> list[dict[str, Any]]:
        """Return everything of a kind, in the order in which it came."""
        lines = self._file.read_text(encoding="utf-8").splitlines() if self._file.is_file() else []
        return [result for line in lines if (result := json.loads(line))["what"] == what]


def _installed(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)


def _forget(monkeypatch: pytest.MonkeyPatch, package: str, name: str) -> None:
    """Let a receiver be imported again, with this stand-in and not an earlier test's."""
    monkeypatch.delitem(sys.modules, f"{package}.{name}", raising=False)
    monkeypatch.delattr(importlib.import_module(package), name, raising=False)


def _mlflow_client(kept: Kept) -> type:
    """A stand-in for MLflow's client, which keeps what it gets in ``kept``."""

    class Client:
        def __init__(self, tracking_uri: str | None = None) -> None:
            if tracking_uri == "http://nowhere":
                raise ConnectionError("nobody answers")
            self._uri = tracking_uri

        def get_experiment_by_name(self, name: str) -> Any:
            known = [item for item in kept.of("experiment") if item["name"] == name]
            return SimpleNamespace(experiment_id="7") if known else None

        def create_experiment(self, name: str) -> str:
            kept.add("experiment", name=name, uri=self._uri)
            return "7"

        def create_run(self, experiment_id: str, run_name: str) -> Any:
            kept.add("run", experiment=experiment_id, name=run_name)
            return SimpleNamespace(info=SimpleNamespace(run_id=f"run-{len(kept.of('run'))}"))

        def log_batch(self, run_id: str, metrics: Any = (), params: Any = (), tags: Any = ()) -> None:
            for metric in metrics:
                kept.add("metric", run=run_id, key=metric.key, value=metric.value, step=metric.step)
            for param in params:
                kept.add("param", run=run_id, key=param.key, value=param.value)
            assert not tags

        def log_artifact(self, run_id: str, file: str, artifact_path: str) -> None:
            kept.add("artifact", run=run_id, file=Path(file).name, folder=artifact_path)

        def set_terminated(self, run_id: str) -> None:
            kept.add("end", run=run_id)

    return Client


def install_mlflow(monkeypatch: pytest.MonkeyPatch, kept: Kept) -> None:
    """Put a stand-in for MLflow where it would be imported from."""

    def pair(key: str, value: Any) -> Any:
        return SimpleNamespace(key=key, value=value)

    def metric(key: str, value: float, time: int, step: int) -> Any:
        assert time > 0
        return SimpleNamespace(key=key, value=value, step=step)

    _installed(monkeypatch, "mlflow")
    _installed(monkeypatch, "mlflow.entities", Metric=metric, Param=pair, RunTag=pair)
    _installed(monkeypatch, "mlflow.tracking")
    _installed(monkeypatch, "mlflow.tracking.client", MlflowClient=_mlflow_client(kept))
    _installed(monkeypatch, "mlflow.utils")
    _installed(monkeypatch, "mlflow.utils.time", get_current_time_millis=lambda: 1)
    _forget(monkeypatch, "nvflare.app_opt.tracking.mlflow", "mlflow_receiver")


def install_wandb(monkeypatch: pytest.MonkeyPatch, kept: Kept) -> None:
    """Put a stand-in for Weights & Biases where it would be imported from."""

    class Run:
        def log(self, values: dict[str, Any], step: int | None = None) -> None:
            kept.add("log", values={key: getattr(value, "file", value) for key, value in values.items()}, step=step)

        def finish(self) -> None:
            kept.add("end")

    def init(**arguments: Any) -> Run:
        kept.add("init", **arguments)
        return Run()

    def image(file: str) -> Any:
        return SimpleNamespace(file=Path(file).name)

    _installed(monkeypatch, "wandb", init=init, log=Run().log, Image=image)
    _forget(monkeypatch, "nvflare.app_opt.tracking.wandb", "wandb_receiver")
