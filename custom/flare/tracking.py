"""What a run's server tells a tracking server, MLflow or Weights & Biases, by NVFlare's receivers.

NVFlare's receivers keep a run for every site and none for the server, from which all numbers of a run come: what sites
reported has passed the registry there. These keep one run, the server's.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nvflare.apis.analytix import ANALYTIC_EVENT_TYPE
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.widgets.streaming import AnalyticsReceiver

from ..data.whole_files import write_text

# The event by which the controller's numbers come; the receivers' default is that of numbers from sites.
EVENTS = [ANALYTIC_EVENT_TYPE]
# In the server's run folder: which run of the tracking server it is.
TRACKED_RUN_FILE = "tracked_run.txt"


class MLflowReceiver(AnalyticsReceiver):  # type: ignore[misc]
    """Gives the numbers of a run to MLflow as metrics, and its settings as parameters.

    Args:
        tracking_uri: of MLflow, a server's address or ``sqlite:///file.db``.
        experiment: in which the run is kept; made where it is not there.
        run_name: what the run is called.
        parameters: the settings of the run.
        run_id: of the run that is continued; empty for a new one.
    """

    def __init__(
        self, tracking_uri: str, experiment: str, run_name: str, parameters: Mapping[str, Any], run_id: str = ""
    ) -> None:
        super().__init__(events=EVENTS)
        # MLflow is an extra.
        from nvflare.app_opt.tracking.mlflow import mlflow_receiver  # noqa: PLC0415

        self._receiver = mlflow_receiver.MLflowReceiver(tracking_uri=tracking_uri, events=EVENTS)
        self._library = mlflow_receiver
        self._uri, self._experiment, self._run_name = tracking_uri, experiment, run_name
        self._parameters, self._run_id = parameters, run_id

    def initialize(self, fl_ctx: FLContext) -> None:
        """Begin the run, or go on with it; NVFlare's own would also set the address for the whole process."""
        client = self._library.MlflowClient(tracking_uri=self._uri)
        if not self._run_id:
            result = client.get_experiment_by_name(self._experiment)
            experiment = client.create_experiment(self._experiment) if result is None else result.experiment_id
            self._run_id = client.create_run(experiment_id=experiment, run_name=self._run_name).info.run_id
            parameters = [self._library.Param(name, str(value)) for name, value in self._parameters.items()]
            client.log_batch(run_id=self._run_id, params=parameters)
        here = fl_ctx.get_identity_name()
        self._receiver.mlflow_clients, self._receiver.run_ids = {here: client}, {here: self._run_id}
        self._receiver._init_buffer([here])
        _note_run(fl_ctx, self._run_id)

    def save(self, fl_ctx: FLContext, shareable: Any, record_origin: str) -> None:
        """Keep a number; NVFlare's receiver sends them together."""
        self._receiver.save(fl_ctx, shareable, record_origin)

    def finalize(self, fl_ctx: FLContext) -> None:
        """Send what is left, and end the run."""
        self._receiver.finalize(fl_ctx)


class WandBReceiver(AnalyticsReceiver):  # type: ignore[misc]
    """Gives the numbers of a run to Weights & Biases, and its settings as configuration.

    Args:
        project: in which the run is kept.
        run_name: what the run is called.
        parameters: the settings of the run.
        run_id: of the run, new or continued.
        mode: ``online``, or ``offline`` for what `wandb sync` sends later.
    """

    def __init__(self, project: str, run_name: str, parameters: Mapping[str, Any], run_id: str, mode: str) -> None:
        super().__init__(events=EVENTS)
        # An extra, as above.
        from nvflare.app_opt.tracking.wandb.wandb_receiver import WandBReceiver as NVFlareReceiver  # noqa: PLC0415

        run: dict[str, Any] = {"project": project, "name": run_name, "group": run_name, "job_type": "federation"}
        run |= {"id": run_id, "resume": "allow", "config": dict(parameters)}
        self._receiver = NVFlareReceiver(wandb_args=run, mode=mode, events=EVENTS)
        self._run_id = run_id

    def initialize(self, fl_ctx: FLContext) -> None:
        """Begin the run, or go on with it."""
        self._receiver.initialize(_OfOneParticipant(fl_ctx))
        _note_run(fl_ctx, self._run_id)

    def save(self, fl_ctx: FLContext, shareable: Any, record_origin: str) -> None:
        """Hand a number on to the process that sends them."""
        self._receiver.save(fl_ctx, shareable, record_origin)

    def finalize(self, fl_ctx: FLContext) -> None:
        """Send what is left, and end the run."""
        self._receiver.finalize(fl_ctx)


class _OfOneParticipant:
    """A context that does not say that it is a server's, whose sites would each get a run, and the server none."""

    def __init__(self, fl_ctx: FLContext) -> None:
        self._fl_ctx = fl_ctx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fl_ctx, name)

    def get_process_type(self) -> None:
        """Return that it is not known."""


def _note_run(fl_ctx: FLContext, run_id: str) -> None:
    folder = Path(fl_ctx.get_engine().get_workspace().get_run_dir(fl_ctx.get_job_id()))
    write_text(folder / TRACKED_RUN_FILE, f"{run_id}\n")
