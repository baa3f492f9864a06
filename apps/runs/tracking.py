"""A run that is tracked: the setting that a person gives, the job's component, and the pictures when all is over."""

import importlib.util
import json
import os
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...custom.flare.tracking import TRACKED_RUN_FILE
from ...transforms.strict_files import JsonObject
from .job import Job, JobError

EXPERIMENT = "fedannot"
_COMPONENTS = {"mlflow": "MLflowReceiver", "wandb": "WandBReceiver"}
# What the extras of these names hold.
_PACKAGES = {"mlflow": "mlflow-skinny>=3", "wandb": "wandb>=0.18"}
_LONGEST_WAIT = 20
_LONGEST_REASON = 300
_FORMS = "mlflow=URI or wandb=PROJECT"


@dataclass(frozen=True)
class Tracking:
    """Where a run is tracked.

    Attributes:
        kind: by what.
        target: MLflow's address, or the project of Weights & Biases.
    """

    kind: Literal["mlflow", "wandb"]
    target: str

    @classmethod
    def parse(cls, text: str) -> "Tracking":
        """Read ``mlflow=URI`` or ``wandb=PROJECT``.

        Raises:
            JobError: if it is neither, or what it needs is not installed.

        >>> Tracking.parse("mlflow")
        Traceback (most recent call last):
        ...
        fedannot.apps.runs.job.JobError: --track: found 'mlflow', expected mlflow=URI or wandb=PROJECT.
        """
        kind, _, target = text.partition("=")
        if not target or kind not in _COMPONENTS:
            raise JobError(f"--track: found {text!r}, expected {_FORMS}.")
        if importlib.util.find_spec(kind) is None:
            raise JobError(f"--track {text}: {kind} is not installed. Install it with: pip install '{_PACKAGES[kind]}'")
        return cls("mlflow" if kind == "mlflow" else "wandb", target)

    def check(self) -> None:
        """Ask the tracking server for something, so that a run that it would not take does not begin.

        Raises:
            JobError: if it does not answer, or does not within a time.
        """
        failed: list[BaseException] = [TimeoutError(f"no answer within {_LONGEST_WAIT} s")]

        def ask() -> None:
            try:
                self._ask()
            except Exception as error:
                # Whatever a client library makes of a server that it cannot use.
                failed[:] = [error]
            else:
                failed.clear()

        # The libraries try again for minutes.
        asking = threading.Thread(target=ask, name="tracking server", daemon=True)
        asking.start()
        asking.join(_LONGEST_WAIT)
        if failed:
            (error,) = failed[:1]
            reason = " ".join(str(error).split())[:_LONGEST_REASON]
            raise JobError(
                f"--track {self.kind}={self.target}: the tracking server cannot be used: {type(error).__name__}: "
                f"{reason}. Expected one that answers: start it, correct address or login, or leave --track out."
            )

    def _ask(self) -> None:
        if self.kind == "mlflow":
            from mlflow.tracking.client import MlflowClient  # noqa: PLC0415

            MlflowClient(tracking_uri=self.target).get_experiment_by_name(EXPERIMENT)
        elif os.environ.get("WANDB_MODE", "online") == "online":
            import wandb  # noqa: PLC0415

            if not wandb.login(verify=True, timeout=_LONGEST_WAIT):
                raise ConnectionError("nobody is logged in: wandb login, or WANDB_MODE=offline")

    def add_to(self, job: Job, run_name: str, parameters: Mapping[str, Any], run_id: str | None) -> None:
        """Add the component that tells the tracking server to a copy of a job.

        Args:
            job: the copy, whose server's configuration is changed.
            run_name: what the run is called.
            parameters: its settings, by dotted key.
            run_id: of the run that is continued, None for a new one.
        """
        known: JsonObject = {"run_name": run_name, "parameters": dict(parameters)}
        if self.kind == "mlflow":
            known |= {"tracking_uri": self.target, "experiment": EXPERIMENT, "run_id": run_id or ""}
        else:
            mode = os.environ.get("WANDB_MODE", "online")
            known |= {"project": self.target, "run_id": run_id or uuid.uuid4().hex[:8], "mode": mode}
        path = f"fedannot.custom.flare.tracking.{_COMPONENTS[self.kind]}"
        component = json.dumps({"id": "tracking", "path": path, "args": known}, ensure_ascii=False)
        with job.server_config.open("a", encoding="utf-8") as file:
            file.write(f"\n# Added for this run\ncomponents = ${{components}} [ {component} ]\n")

    def add_pictures(self, run_id: str, pictures: Sequence[Path]) -> None:
        """Give the pictures of a run to the tracking server, as artefacts.

        Args:
            run_id: of the run, from :func:`tracked_run`.
            pictures: the files.
        """
        if self.kind == "mlflow":
            from mlflow.tracking.client import MlflowClient  # noqa: PLC0415

            client = MlflowClient(tracking_uri=self.target)
            for file in pictures:
                client.log_artifact(run_id, str(file), artifact_path="pictures")
            return
        import wandb  # noqa: PLC0415

        mode = os.environ.get("WANDB_MODE", "online")
        run = wandb.init(project=self.target, id=run_id, resume="allow", mode=mode)
        run.log({f"pictures/{file.stem}": wandb.Image(str(file)) for file in pictures})
        run.finish()


def tracked_run(server_folder: Path) -> str | None:
    """Return which run of the tracking server a run is, None if it was not tracked.

    Args:
        server_folder: the server's run folder.
    """
    file = server_folder / TRACKED_RUN_FILE
    return file.read_text(encoding="utf-8").strip() if file.is_file() else None
