"""A job as NVFlare's own recipe."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runs.job import Job

if TYPE_CHECKING:
    from ..runs.nvflare_recipe import JobRecipe


def recipe(
    job: str | Path,
    *,
    data: str | Path | None = None,
    settings: str | None = None,
    changes: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> "JobRecipe":
    """Return a job as NVFlare's recipe, which ``execute(env)`` runs in its simulator, proof of concept or federation.

    With the same seed it gives the same bits as ``nvflare simulator``, and on the CPU as
    :func:`fedannot.apps.simulate`. Each environment is NVFlare's: ``SimEnv``, ``PocEnv``, ``ProdEnv`` of
    ``nvflare.recipe``. For a ``ProdEnv`` the app is what `fedannot deploy job` makes.

    Args:
        job: the name of an installed job, or a job's folder.
        data: a federation's folder on this machine; None for generated images, and for sites with data of their own.
        settings: a set of settings, by its name next to the job or as a file.
        changes: single settings to change after that, ``{"training.batch_size": 8}``.
        seed: of everything random; None for the job's.

    Raises:
        JobError: if the job cannot be used.
        SettingsError: if a setting cannot be used.
        DataError: if the data cannot be used, or do not fit the job.

    >>> from fedannot.apps import recipe
    >>> of_nvflare = recipe("fedavg", changes={"rounds": 2})
    >>> of_nvflare.export("exported")
    >>> sorted(file.name for file in Path("exported", "fedavg").rglob("*.*"))
    ['README.txt', 'config_fed_client.conf', 'config_fed_server.conf', 'meta.json', 'settings.conf']
    """
    # NVFlare's takes `--export` and `--export-dir` away from the arguments of the program that imports it.
    from ..runs.nvflare_recipe import JobRecipe, JobSource  # noqa: PLC0415

    changes = dict(changes or {}) | ({} if seed is None else {"seed": seed})
    return JobRecipe(JobSource(Job.open(job), None if data is None else Path(data), settings, changes))
