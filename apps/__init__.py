"""What a person runs: the `fedannot` command, and the same as functions for a notebook or a script.

The function `audit` is :func:`fedannot.audit`: here that name is a folder.
"""

from typing import TYPE_CHECKING

from ..transforms.lazy_names import lazy_names

if TYPE_CHECKING:
    from .functions.audits import Audit, read_audit
    from .functions.bundles import Bundle, export_bundle
    from .functions.comparisons import ComparedMethods, compare, read_compared
    from .functions.cross_validation import CrossValidated, cross_validate
    from .functions.data import CheckedData, ImportedFederation, check, import_folders
    from .functions.prepared import PreparedImages, prepared_images
    from .functions.recipes import recipe
    from .functions.results import ExportedResults, export_results
    from .functions.runs import Run, read_run, simulate
    from .planning.plan import RunPlan, plan
    from .runs.arms import Arm
    from .runs.installed import copy_job, installed_jobs
    from .runs.progress import ProgressStep

__all__ = [
    "Arm",
    "Audit",
    "Bundle",
    "CheckedData",
    "ComparedMethods",
    "CrossValidated",
    "ExportedResults",
    "ImportedFederation",
    "PreparedImages",
    "ProgressStep",
    "Run",
    "RunPlan",
    "check",
    "compare",
    "copy_job",
    "cross_validate",
    "export_bundle",
    "export_results",
    "import_folders",
    "installed_jobs",
    "plan",
    "prepared_images",
    "read_audit",
    "read_compared",
    "read_run",
    "recipe",
    "simulate",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("Audit", "read_audit"), "functions.audits"),
        **dict.fromkeys(("Bundle", "export_bundle"), "functions.bundles"),
        **dict.fromkeys(("ComparedMethods", "compare", "read_compared"), "functions.comparisons"),
        **dict.fromkeys(("CrossValidated", "cross_validate"), "functions.cross_validation"),
        **dict.fromkeys(("CheckedData", "ImportedFederation", "check", "import_folders"), "functions.data"),
        **dict.fromkeys(("PreparedImages", "prepared_images"), "functions.prepared"),
        "recipe": "functions.recipes",
        **dict.fromkeys(("ExportedResults", "export_results"), "functions.results"),
        **dict.fromkeys(("Run", "read_run", "simulate"), "functions.runs"),
        **dict.fromkeys(("RunPlan", "plan"), "planning.plan"),
        "Arm": "runs.arms",
        **dict.fromkeys(("copy_job", "installed_jobs"), "runs.installed"),
        "ProgressStep": "runs.progress",
    },
)
