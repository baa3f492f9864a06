"""The project's structure: dependencies point one way, NVFlare stays at the edge, a site process imports little.

A rule takes a file and returns what breaks it. A check collects that over all files, and reports all at once.
"""

import ast
import functools
import graphlib
import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from pyhocon import ConfigFactory

ROOT = Path(__file__).parents[1]
# Every package may import itself and those below it.
LEVELS = ("transforms", "custom", "apps")
# Installed without modules: what jobs and sites are configured with.
BESIDE = ("jobs", "site_configs")
MODULES = sorted(path for package in LEVELS for path in (ROOT / package).rglob("*.py"))
# What is read there was written by the software itself, or is checked in other ways.
OWN_READERS = {
    "transforms/strict_files.py",
    "custom/data/file_digests.py",
    "custom/data/prepared_pack.py",
    "custom/flare/kept_files.py",
    # Both read back what they have just written.
    "apps/runs/job.py",
    "apps/deployment/kit.py",
}
JOBS = sorted(path.parent for path in ROOT.glob("jobs/*/meta.json"))


@functools.cache
def syntax_tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(["fedannot", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def imported_modules(path, for_types=True):
    """Absolute names of all modules that a file imports, wherever in the file; relative imports are resolved."""
    package = ["fedannot", *path.relative_to(ROOT).parent.parts]
    names = []
    checked_only = {
        inner
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(syntax_tree(path)):
        if not for_types and node in checked_only:
            continue
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base += node.module.split(".") if node.module else []
            names += [".".join([*base, alias.name]) for alias in node.names]
    return names


def identify(path):
    return str(path.relative_to(ROOT))


def collected(rule, paths):
    """What breaks a rule, per file that breaks it."""
    return {identify(path): broken for path in paths if (broken := rule(path))}


def test_the_modules_are_found_and_their_imports_resolved():
    assert {identify(path).split("/")[0] for path in MODULES} == set(LEVELS)
    executor = imported_modules(ROOT / "custom" / "flare" / "executor.py")
    # from ..methods.lookup import read_job_settings
    assert "fedannot.custom.methods.lookup.read_job_settings" in executor
    assert "fedannot.transforms.errors.DataError" in executor  # from ...transforms.errors import DataError
    assert "gc" in executor


def upward_imports(path):
    level = LEVELS.index(path.relative_to(ROOT).parts[0])
    above = tuple(f"fedannot.{package}" for package in LEVELS[level + 1 :])
    return [name for name in imported_modules(path) if above and name.startswith(above)]


def test_no_two_rooms_of_custom_need_each_other():
    """The interface of methods is below the course of rounds, and the course knows no method."""
    needed = {}
    for path in (ROOT / "custom").rglob("*.py"):
        room = path.relative_to(ROOT / "custom").with_suffix("").parts[0]
        names = [name.split(".") for name in imported_modules(path, for_types=False)]
        others = {parts[2] for parts in names if parts[:2] == ["fedannot", "custom"] and len(parts) > 2}
        needed.setdefault(room, set()).update(others - {room})
    needed.pop("__init__")
    order = list(graphlib.TopologicalSorter(needed).static_order())
    assert order.index("interface") < order.index("run")
    assert "methods" not in needed["run"]


def test_nothing_imports_upward():
    assert collected(upward_imports, MODULES) == {}


def absolute_imports(path):
    """The lines of those that name the package itself."""
    return [
        node.lineno
        for node in ast.walk(syntax_tree(path))
        if (isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("fedannot"))
        or (isinstance(node, ast.Import) and any(alias.name.startswith("fedannot") for alias in node.names))
    ]


def test_imports_inside_the_packages_are_relative():
    assert collected(absolute_imports, MODULES) == {}


def nvflare_inside(path):
    parts = path.relative_to(ROOT).parts
    if parts[0] == "apps" or parts[:2] == ("custom", "flare"):
        return []
    return [name for name in imported_modules(path) if name.split(".")[0] == "nvflare"]


def test_nvflare_is_imported_at_the_edge_only():
    assert collected(nvflare_inside, MODULES) == {}


def training_settings(path):
    settings = ("fedannot.custom.settings", "fedannot.custom.methods")
    return [name for name in imported_modules(path) if name.startswith(settings)]


def test_data_know_nothing_of_the_settings_of_training():
    assert collected(training_settings, (ROOT / "custom" / "data").rglob("*.py")) == {}


# What is made of arrays is made elsewhere. A swarm averages at sites, in NVFlare's aggregator: it has the sum itself.
FORMULAS = (
    "numpy",
    "scipy",
    "torch.nn.functional",
    "torch.optim",
    *(f"fedannot.custom.{part}" for part in ("aggregation", "evaluation", "mixtures", "training")),
)
ADAPTED = {
    "custom/flare/executor.py": {"fedannot.custom.training.loop.TrainingStopped"},
    "custom/flare/swarm_aggregator.py": {
        f"fedannot.custom.aggregation.{name}"
        for name in (
            *(f"round_average.{name}" for name in ("AveragingPlan", "RoundAverage", "SentModel")),
            "reported_counts.ReportedCounts",
            "reported_counts.claim_limit",
        )
    },
}
# Of PyTorch: the type of tensors, and how they come from and go into messages.
TENSORS = {"torch.Tensor", "torch.as_tensor", "torch.from_numpy", "torch.save", "torch.load"}
ADAPTERS = sorted((ROOT / "custom" / "flare").glob("*.py"))


def formulas(path):
    """What is imported or used of them without a reason, and reasons for what is no longer imported."""
    imported = {name for name in imported_modules(path) if name.startswith(FORMULAS)}
    used = {
        f"torch.{node.attr}"
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch"
    }
    return sorted((imported ^ ADAPTED.get(identify(path), set())) | (used - TENSORS))


def test_what_talks_to_nvflare_holds_no_formula():
    assert set(ADAPTED) <= {identify(path) for path in ADAPTERS}
    assert collected(formulas, ADAPTERS) == {}


METHODS = ROOT / "custom" / "methods"
METHOD_FOLDERS = sorted(path.parent.name for path in METHODS.glob("*/__init__.py"))
GENERAL = [
    path
    for path in MODULES
    if path.relative_to(ROOT).parts[0] == "custom" and (METHODS not in path.parents or path.parent == METHODS)
]
# What names all methods, and what names all that is public.
KNOW_METHODS = ("custom/methods/__init__.py", "custom/__init__.py")


def named_methods(path):
    folders = tuple(f"fedannot.custom.methods.{name}" for name in METHOD_FOLDERS)
    below = tuple(f"{folder}." for folder in folders)
    return [name for name in imported_modules(path) if name in folders or name.startswith(below)]


def test_general_code_knows_no_method():
    """It asks for the job's; which there are stands in one place."""
    assert {"fedavg", "feda3i", "fedia", "fedgsca", "personal"} <= set(METHOD_FOLDERS)
    assert collected(named_methods, [path for path in GENERAL if identify(path) not in KNOW_METHODS]) == {}


def test_no_imports_go_in_a_circle():
    """Those inside functions among them, but for what only a type checker reads."""
    edges = {module_name(path): set() for path in MODULES}
    for path in MODULES:
        name = module_name(path)
        result = imported_modules(path, for_types=False)
        edges[name] = {module for item in result for module in (item, item.rpartition(".")[0]) if module in edges}
        # A name of a package's own is none of the modules beside it.
        edges[name].discard(name)
    graphlib.TopologicalSorter(edges).prepare()


def lenient_readers(path):
    called = {
        f"{node.func.value.id}.{node.func.attr}"
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
    }
    return sorted(called & {"json.load", "json.loads", "yaml.load", "yaml.safe_load"})


def test_json_and_yaml_of_others_are_read_strictly():
    """A key that appears twice, or an alias that stands for millions of values, must not pass anywhere."""
    assert collected(lenient_readers, [path for path in MODULES if identify(path) not in OWN_READERS]) == {}


def test_every_package_folder_is_installed():
    """What has no `__init__.py` is left out; `tests/integration/test_wheel.py` looks at what a wheel holds."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert settings["packages"]["find"] == {"where": ["src"], "namespaces": False}
    package = ROOT / "src" / "fedannot"
    links = {path.name: path.readlink() for path in package.iterdir() if path.is_symlink()}
    assert links == {name: Path("..", "..", name) for name in (*LEVELS, *BESIDE)}
    folders = {path.parent for path in MODULES}
    assert [identify(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_packages_are_marked_as_typed():
    package = ROOT / "src" / "fedannot"
    assert [path for path in (package, *(package / name for name in LEVELS)) if not (path / "py.typed").is_file()] == []


def test_no_two_test_modules_share_a_name():
    """Folders of tests are no packages, so that pytest takes the second one for the first."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("*.py"))
    assert [name for name, count in names.items() if count > 1 and name.startswith("test_")] == []


def job_app(job):
    """The one folder of a job that all participants get."""
    (app,) = json.loads((job / "meta.json").read_text(encoding="utf-8"))["deploy_map"]
    return job / app


def test_jobs_carry_the_folder_that_lets_nvflare_build_installed_classes():
    assert [job.name for job in JOBS if not (job_app(job) / "custom" / "README.txt").is_file()] == []


def test_what_nvflare_reads_of_a_job_is_ascii():
    """Its commands decode files as the locale asks, which any library of the process may have changed."""
    files = [job / "meta.json" for job in JOBS]
    files += [file for job in JOBS for file in job.glob("*/config/*") if file.is_file()]
    assert len(files) >= 3 * len(JOBS)
    assert [identify(file) for file in files if not file.read_bytes().isascii()] == []


# Its sites talk to each other, by components of its own.
SWARM = "decoupled"


SIDES = ("server", "client")


def test_jobs_with_a_server_have_the_same_configuration():
    """Their settings say what they do: a configuration that a site has approved serves every method."""
    assert len(JOBS) >= 11
    jobs = [job for job in JOBS if job.name != SWARM]
    reference = JOBS[0]
    assert reference in jobs
    differ = [
        f"{job.name}, {side}"
        for job in jobs
        for side in SIDES
        if (job / "app" / "config" / f"config_fed_{side}.conf").read_bytes()
        != (reference / "app" / "config" / f"config_fed_{side}.conf").read_bytes()
    ]
    assert differ == []


def component_paths(value):
    """All values of keys ``path`` in a nested configuration."""
    if isinstance(value, dict):
        result = [entry for key, entry in value.items() if key == "path" and isinstance(entry, str)]
        return result + [path for entry in value.values() for path in component_paths(entry)]
    if isinstance(value, list):
        return [path for entry in value for path in component_paths(entry)]
    return []


def is_component(path):
    module, name = path.rsplit(".", 1)
    try:
        return callable(getattr(importlib.import_module(module), name, None))
    except ModuleNotFoundError:
        return False


def test_jobs_name_components_that_exist():
    assert not is_component("fedannot.custom.flare.nowhere.Executor")
    assert not is_component("fedannot.custom.flare.executor.Nobody")
    missing = {}
    for job in JOBS:
        paths = []
        for side in SIDES:
            config = ConfigFactory.parse_file(str(job / "app" / "config" / f"config_fed_{side}.conf"))
            paths += component_paths(config.as_plain_ordered_dict())
        assert len(paths) >= 5, job.name
        missing[job.name] = [path for path in paths if not is_component(path)]
    assert {job: paths for job, paths in missing.items() if paths} == {}


def modules_loaded_by(statement):
    program = f"{statement}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert finished.returncode == 0, finished.stderr
    return set(json.loads(finished.stdout.splitlines()[-1]))


def test_a_gate_loads_nothing_that_trains():
    """It stands in a process that keeps a connection for months, and looks at settings."""
    loaded = modules_loaded_by("import fedannot.custom.flare.site_gate, fedannot.custom.flare.job_gate")
    assert loaded & {"torch", "monai", "scipy.stats"} == set()


def test_settings_are_types_alone():
    modules = ("strict_model", "data.phantoms.settings", "settings", "methods.lookup")
    loaded = modules_loaded_by(f"import {', '.join(f'fedannot.custom.{module}' for module in modules)}")
    assert "pydantic" in loaded
    assert loaded & {"numpy", "torch", "monai", "nibabel", "PIL", "nvflare"} == set()


def test_methods_are_declared_without_what_computes():
    """Who checks a job's settings, or looks up what may leave, loads no PyTorch; no method knows NVFlare."""
    loaded = modules_loaded_by(
        "from fedannot.custom.methods.lookup import all_methods\n"
        "from fedannot.custom.outbound.fields import COMMON_FIELDS\n"
        "for method in all_methods(): method.settings(); method.own_tasks"
    )
    assert {f"fedannot.custom.methods.{name}.settings" for name in METHOD_FOLDERS} <= loaded
    assert loaded & {"torch", "monai", "scipy", "nvflare"} == set()


def test_halves_of_methods_load_no_nvflare():
    loaded = modules_loaded_by(
        "from pkgutil import resolve_name\n"
        "from fedannot.custom.methods import METHODS\n"
        "for method in METHODS: resolve_name(method.server); resolve_name(method.site)"
    )
    assert {"fedannot.custom.methods.fedia.server", "fedannot.custom.methods.fedia.site"} <= loaded
    assert "nvflare" not in loaded


def test_site_process_starts_without_what_it_does_not_need():
    loaded = modules_loaded_by(
        "from fedannot.custom.flare.executor import FederatedExecutor\nFederatedExecutor({'method': 'feda3i'})"
    )
    assert {"torch", "fedannot.custom.methods.feda3i.site"} <= loaded
    # The server's half, the course of rounds, what is another method's.
    server = ("methods.feda3i.server", "run.round_loop", "aggregation.streaming_average", "methods.fedia.site")
    assert loaded & {f"fedannot.custom.{name}" for name in server} == set()
    unwanted = {"monai", "monai.apps", "matplotlib", "typer", "rich", "pandas", "sklearn", "skimage"}
    assert loaded & unwanted == set()
    assert not any(name.startswith("fedannot.apps") for name in loaded)


def named_files_that_are_gone(page):
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:tests|transforms|custom|apps)/[\w/]+\.py\b", text))
    named |= {f"custom/{name}.py" for name in re.findall(r"`((?:approval|data|flare|methods|run)/[\w/]+)`", text)}
    return sorted(name for name in named if not (ROOT / name).is_file())


def test_modules_and_tests_that_a_page_names_are_there():
    assert collected(named_files_that_are_gone, [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]) == {}


FLARE, METHOD = "custom/flare/{}.py", "custom/methods/{}.py"


@pytest.mark.parametrize(
    ("rule", "place", "line", "broken"),
    [
        (upward_imports, "transforms/{}.py", "from ..custom import data", ["fedannot.custom.data"]),
        (upward_imports, "custom/{}.py", "def f():\n    import fedannot.apps.runs", ["fedannot.apps.runs"]),
        (upward_imports, "apps/{}.py", "from ..custom import data", []),
        (absolute_imports, "custom/{}.py", "import os\nfrom fedannot.custom import data", [2]),
        (absolute_imports, "custom/{}.py", "from .data import cases", []),
        (nvflare_inside, "custom/run/{}.py", "from nvflare.apis import dxo", ["nvflare.apis.dxo"]),
        (nvflare_inside, FLARE, "from nvflare.apis import dxo", []),
        (training_settings, "custom/data/{}.py", "from ..settings import Job", ["fedannot.custom.settings.Job"]),
        (formulas, FLARE, "import numpy", ["numpy"]),
        (formulas, FLARE, "import torch\ntorch.stack([])", ["torch.stack"]),
        (formulas, FLARE, "import torch\ntorch.load('model.pt')", []),
        (named_methods, METHOD, "from .fedia import server", ["fedannot.custom.methods.fedia.server"]),
        (named_methods, METHOD, "from .lookup import find", []),
        (lenient_readers, "apps/{}.py", "import json\njson.loads('{}')", ["json.loads"]),
        (lenient_readers, "apps/{}.py", "import json\njson.dumps({})", []),
        (
            named_files_that_are_gone,
            "docs/{}.md",
            "See `custom/gone.py` and `run/lost`.",
            ["custom/gone.py", "custom/run/lost.py"],
        ),
    ],
)
def test_a_rule_finds_what_breaks_it(rule, place, line, broken, tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    file = tmp_path / place.format("module")
    file.parent.mkdir(parents=True)
    file.write_text(line, encoding="utf-8")
    assert collected(rule, [file]) == ({place.format("module"): broken} if broken else {})
