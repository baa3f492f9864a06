"""A job as NVFlare's own recipe, for its simulator, its proof of concept and a federation of hospitals."""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from nvflare.apis.job_def import ALL_SITES
from nvflare.job_config.api import FedJob
from nvflare.job_config.fed_job_config import FedJobConfig
from nvflare.recipe import PocEnv, ProdEnv, SimEnv
from nvflare.recipe.spec import ExecEnv, Recipe

from ...custom.data.federation import read_federation
from ...custom.data.location import DATA_VARIABLE
from ...custom.data.phantoms.drawing import phantom_site_names
from ...custom.data.whole_files import new_folder, write_text
from ...custom.settings import SettingValues
from ...transforms.strict_files import read_json
from ..deployment.deployable_job import deployable_job
from .chosen_settings import changes_of_run
from .installed import META_FILE
from .job import Job, JobError, components_in, parse_hocon
from .process_state import environment_variable


@dataclass(frozen=True)
class JobSource:
    """What a recipe's app is made of.

    Attributes:
        job: the job.
        data: a federation's folder; None where sites have data of their own or make the embedded federation.
        settings: a set of settings, by its name next to the job or as a file; None for the job's own.
        changes: single settings to change after that.
    """

    job: Job
    data: Path | None = None
    settings: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)

    def settings_of_run(self) -> SettingValues:
        """Return all that differs from the job's own settings.

        Raises:
            SettingsError: if a setting cannot be used.
            DataError: if the data cannot be used, or do not fit.
        """
        changes = changes_of_run(self.job, self.settings, self.data, self.changes)
        return changes if self.data is None else changes | {"data": str(self.data.resolve())}


class JobRecipe(Recipe):  # type: ignore[misc]
    """NVFlare's recipe of a job: ``execute(env)`` runs it in a ``SimEnv``, a ``PocEnv`` or a ``ProdEnv``.

    Its app is that of the job's folder, with other settings: the same components, the same bits. For a ``ProdEnv`` it
    is what `fedannot deploy job` makes, which participants approve. Components, filters and files cannot be added: what
    leaves a site is declared with a job.

    Args:
        source: what its app is made of.

    Raises:
        SettingsError: if a setting cannot be used.
        DataError: if the data cannot be used, or do not fit the job.
    """

    def __init__(self, source: JobSource) -> None:
        self._config = _FolderConfig(source)
        super().__init__(_FolderJob(self._config))

    def process_env(self, env: ExecEnv) -> None:
        """Check that sites have data there, and choose the form of the app.

        Args:
            env: where the job is to run.

        Raises:
            JobError: if a site has no data, the data are named that hospitals have themselves, or NVFlare's simulator
                could not use the workspace.
        """
        source = self._config.source
        self._config.is_deployed = isinstance(env, ProdEnv)
        if self._config.is_deployed and source.data is not None:
            raise JobError(
                f"{source.job.folder}: the recipe names the data {source.data}, but hospitals train on data of their "
                "own; leave `data` out."
            )
        # NVFlare makes command lines of it, and splits them.
        if isinstance(env, SimEnv) and shlex.split(env.workspace_root) != [env.workspace_root]:
            raise JobError(
                f"SimEnv: found the workspace_root {env.workspace_root!r}; expected a path without spaces and quotes, "
                "which NVFlare's simulator cannot use."
            )
        if isinstance(env, SimEnv | PocEnv):
            check_sites(source, env.clients or [f"site-{number + 1}" for number in range(env.num_clients)])

    def export(
        self,
        job_dir: str,
        server_exec_params: dict[str, Any] | None = None,
        client_exec_params: dict[str, Any] | None = None,
        env: ExecEnv | None = None,
    ) -> None:
        """Write the job to ``job_dir/NAME``, where there must be no files: settings and components, no data.

        Args:
            job_dir: the folder of jobs.
            server_exec_params: refused: all settings are the job's.
            client_exec_params: as above.
            env: where the job is to run; None for a simulator or a proof of concept.

        Raises:
            DataError: if there are files in the job's folder.
        """
        self._config.is_deployed = False
        super().export(job_dir, server_exec_params, client_exec_params, env)


class _FolderJob(FedJob):  # type: ignore[misc]
    """NVFlare's job object, whose app is a folder's and takes nothing in addition."""

    def __init__(self, config: "_FolderConfig") -> None:
        super().__init__(name=config.job_name)
        self.job = config
        self.clients = [ALL_SITES]
        # There are no components to collect.
        self._deployed = True

    def to(self, obj: Any, target: str, *_: Any, **__: Any) -> NoReturn:
        """Refuse to add a component, a filter, a file or a parameter.

        Raises:
            JobError: always.
        """
        raise JobError(
            f"{self.job.source.job.folder}: found {type(obj).__name__} to be added for {target!r}, but the app of a "
            "job is that of its folder. Change settings with `changes`, or `fedannot jobs copy` the job and edit its "
            "configurations."
        )

    def add_file_to(self, src_path: str, target: str, *_: Any, **__: Any) -> NoReturn:
        """Refuse to add a file, as above."""
        self.to(Path(src_path), target)

    def simulator_run(self, workspace: str, *args: Any, **options: Any) -> Any:
        """Run the job with NVFlare's simulator, whose sites take the named data, whatever the environment names."""
        data = self.job.source.data
        with nullcontext() if data is None else environment_variable(DATA_VARIABLE, str(data.resolve())):
            return super().simulator_run(workspace, *args, **options)


class _FolderConfig(FedJobConfig):  # type: ignore[misc]
    """What NVFlare writes of a job: the job's folder with other settings, or what is submitted to hospitals."""

    def __init__(self, source: JobSource) -> None:
        super().__init__(source.job.name, min_clients=1)
        self.source = source
        self.is_deployed = False
        self._changes = source.settings_of_run()
        source.job.settings_with(self._changes)

    def generate_job_config(self, job_root: str) -> None:
        """Write the job below a folder of jobs.

        Raises:
            JobError, SettingsError, DataError: see :func:`fedannot.apps.deployment.deployable_job.deployable_job`.
        """
        out = Path(job_root).absolute() / self.job_name
        with new_folder(out, shared=True) as unfinished:
            if self.is_deployed:
                source = self.source
                deployable_job(source.job.folder, unfinished, settings=source.settings, overrides=source.changes)
            else:
                unfinished.rmdir()
                check_same_components(self.source.job, self.source.job.copy_with(self._changes, unfinished))
            if self.meta_props:
                meta = read_json(unfinished / META_FILE, "what the job says of itself") | self.meta_props
                write_text(unfinished / META_FILE, json.dumps(meta, indent=2) + "\n", shared=True)


def check_sites(source: JobSource, sites: Sequence[str]) -> None:
    """Check that all sites of an environment have data, before any process starts.

    Args:
        source: what the recipe is of.
        sites: names of the environment's sites.

    Raises:
        JobError: if the named federation has no data of a site, or the embedded federation not enough sites.
    """
    settings = source.job.settings_with(source.settings_of_run())
    if source.data is not None:
        known = read_federation(source.data).sites
        if missing := [site for site in sites if site not in known]:
            raise JobError(
                f"{source.data}: has no data of {', '.join(missing)}; found those of {', '.join(known)}. Name the "
                f"environment's sites so: clients={list(known)}"
            )
    elif not os.environ.get(DATA_VARIABLE) and not settings.data and not settings.data_required:
        known = phantom_site_names(settings.embedded.sites)
        if len(sites) > len(known):
            raise JobError(
                f"{source.job.folder}: expected at most the {len(known)} sites of the embedded federation, but the "
                f"environment has {len(sites)}; change 'embedded.sites', or name a federation's folder as `data`."
            )


def check_same_components(job: Job, other: Job) -> None:
    """Check that two jobs have the same components, whatever their settings.

    Args:
        job: the job whose components are known.
        other: the other one.

    Raises:
        JobError: if the other has a component more, one less, or another one.
    """
    for file, same in ((job.server_config, other.server_config), (job.client_config, other.client_config)):
        expected, result = ([path for path, _ in components_in(parse_hocon(config))] for config in (file, same))
        if result != expected:
            changed = sorted(set(result) ^ set(expected)) or sorted(set(result))
            raise JobError(
                f"{file}: settings change its components, in {', '.join(changed)}; expected settings to change values "
                "alone."
            )
