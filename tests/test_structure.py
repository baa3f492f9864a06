"""The project's structure: dependencies point one way, NVFlare stays at the edge, a site process imports little."""

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
    "custom/flare/job_meta.py",
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


def test_the_modules_are_found_and_their_imports_resolved():
    assert {identify(path).split("/")[0] for path in MODULES} == set(LEVELS)
    executor = imported_modules(ROOT / "custom" / "flare" / "executor.py")
    # from ..methods.lookup import read_job_settings
    assert "fedannot.custom.methods.lookup.read_job_settings" in executor
    assert "fedannot.transforms.errors.DataError" in executor  # from ...transforms.errors import DataError
    assert "gc" in executor


@pytest.mark.parametrize("path", MODULES, ids=identify)
def test_nothing_imports_upward(path):
    level = LEVELS.index(path.relative_to(ROOT).parts[0])
    above = tuple(f"fedannot.{package}" for package in LEVELS[level + 1 :])
    upward = [name for name in imported_modules(path) if name.startswith(above) and above]
    assert upward == []


@pytest.mark.parametrize("path", MODULES, ids=identify)
def test_imports_inside_the_packages_are_relative(path):
    absolute = [
        node
        for node in ast.walk(syntax_tree(path))
        if (isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("fedannot"))
        or (isinstance(node, ast.Import) and any(alias.name.startswith("fedannot") for alias in node.names))
    ]
    assert [node.lineno for node in absolute] == []


@pytest.mark.parametrize("path", MODULES, ids=identify)
def test_nvflare_is_imported_at_the_edge_only(path):
    parts = path.relative_to(ROOT).parts
    uses = [name for name in imported_modules(path) if name.split(".")[0] == "nvflare"]
    assert not uses or parts[0] == "apps" or parts[:2] == ("custom", "flare")


@pytest.mark.parametrize("path", (ROOT / "custom" / "data").rglob("*.py"), ids=identify)
def test_data_know_nothing_of_the_settings_of_training(path):
    settings = ("fedannot.custom.settings", "fedannot.custom.methods")
    assert [name for name in imported_modules(path) if name.startswith(settings)] == []


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
            "sample_claims.SampleClaims",
            "sample_claims.claim_limit",
        )
    },
    # Optimizers are touched there so that NVFlare's start of a process stays small.
    "custom/flare/site_start.py": {"torch.optim.SGD", "torch.optim.Adam"},
}
# Of PyTorch: the type of tensors, and how they come from and go into messages.
TENSORS = {"torch.Tensor", "torch.as_tensor", "torch.from_numpy", "torch.save", "torch.load"}
ADAPTERS = sorted((ROOT / "custom" / "flare").glob("*.py"))


@pytest.mark.parametrize("path", ADAPTERS, ids=identify)
def test_what_talks_to_nvflare_holds_no_formula(path):
    imported = [name for name in imported_modules(path) if name.startswith(FORMULAS)]
    assert set(imported) == ADAPTED.get(identify(path), set())
    used = {
        f"torch.{node.attr}"
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch"
    }
    assert used <= TENSORS


METHODS = ROOT / "custom" / "methods"
METHOD_FOLDERS = sorted(path.parent.name for path in METHODS.glob("*/__init__.py"))
GENERAL = [
    path
    for path in MODULES
    if path.relative_to(ROOT).parts[0] == "custom" and (METHODS not in path.parents or path.parent == METHODS)
]
# What names all methods.
KNOW_METHODS = ("custom/methods/__init__.py",)


@pytest.mark.parametrize("path", GENERAL, ids=identify)
def test_general_code_knows_no_method(path):
    """It asks for the job's; which there are stands in one place."""
    assert {"fedavg", "feda3i", "fedia", "fedgsca", "personal"} <= set(METHOD_FOLDERS)
    folders = tuple(f"fedannot.custom.methods.{name}" for name in METHOD_FOLDERS)
    named = [
        name for name in imported_modules(path) if name in folders or name.startswith(tuple(f"{f}." for f in folders))
    ]
    assert not named or identify(path) in KNOW_METHODS


LONGEST = 300


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.relative_to(ROOT).parts[0] == "custom"], ids=identify
)
def test_a_module_fits_in_the_head(path):
    lines = sum(1 for _ in path.open(encoding="utf-8"))
    assert lines <= LONGEST


def test_no_imports_go_in_a_circle():
    """Those inside functions among them, but for what only a type checker reads."""
    edges = {module_name(path): set() for path in MODULES}
    for path in MODULES:
        name = module_name(path)
        found = imported_modules(path, for_types=False)
        edges[name] = {module for one in found for module in (one, one.rpartition(".")[0]) if module in edges}
        # A name of a package's own is none of the modules beside it.
        edges[name].discard(name)
    graphlib.TopologicalSorter(edges).prepare()


@pytest.mark.parametrize("path", MODULES, ids=identify)
def test_json_and_yaml_of_others_are_read_strictly(path):
    """A key that appears twice, or an alias that stands for millions of values, must not pass anywhere."""
    called = {
        f"{node.func.value.id}.{node.func.attr}"
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
    }
    loaders = {"json.load", "json.loads", "yaml.load", "yaml.safe_load"}
    assert identify(path) in OWN_READERS or not called & loaders


def test_every_package_folder_is_installed():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {path.parent for path in MODULES}
    of_modules = {f"fedannot.{'.'.join(path.relative_to(ROOT).parts)}" for path in folders}
    assert set(settings["packages"]) == {"fedannot", *(f"fedannot.{name}" for name in BESIDE), *of_modules}
    beside = {f"fedannot.{name}": name for name in (*LEVELS, *BESIDE)}
    assert settings["package-dir"] == {"fedannot": "package", **beside}
    for folder in folders:
        assert (folder / "__init__.py").is_file(), folder


@pytest.mark.parametrize("package", ["package", *LEVELS])
def test_packages_are_marked_as_typed(package):
    assert (ROOT / package / "py.typed").is_file()


def test_no_two_test_modules_share_a_name():
    """Folders of tests are no packages, so that pytest takes the second one for the first."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("*.py"))
    assert [name for name, count in names.items() if count > 1 and name.startswith("test_")] == []


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_jobs_carry_the_folder_that_lets_nvflare_build_installed_classes(job):
    (app,) = json.loads((job / "meta.json").read_text(encoding="utf-8"))["deploy_map"]
    assert (job / app / "custom" / "README.txt").is_file()


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_what_nvflare_reads_of_a_job_is_ascii(job):
    """Its commands decode files as the locale asks, which any library of the process may have changed."""
    files = [job / "meta.json", *(file for file in job.glob("*/config/*") if file.is_file())]
    assert [file for file in files if not file.read_bytes().isascii()] == []


# Its sites talk to each other, by components of its own.
SWARM = "decoupled"


@pytest.mark.parametrize("side", ["server", "client"])
def test_jobs_with_a_server_have_the_same_configuration(side):
    """Their settings say what they do: a configuration that a site has approved serves every method."""
    texts = {(job / "app" / "config" / f"config_fed_{side}.conf").read_bytes() for job in JOBS if job.name != SWARM}
    assert len(JOBS) >= 11
    assert len(texts) == 1


def component_paths(value):
    """All values of keys ``path`` in a nested configuration."""
    if isinstance(value, dict):
        found = [entry for key, entry in value.items() if key == "path" and isinstance(entry, str)]
        return found + [path for entry in value.values() for path in component_paths(entry)]
    if isinstance(value, list):
        return [path for entry in value for path in component_paths(entry)]
    return []


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_jobs_name_components_that_exist(job):
    paths = []
    for side in ("server", "client"):
        config = ConfigFactory.parse_file(str(job / "app" / "config" / f"config_fed_{side}.conf"))
        paths += component_paths(config.as_plain_ordered_dict())
    assert len(paths) >= 5
    for path in paths:
        module, name = path.rsplit(".", 1)
        assert callable(getattr(importlib.import_module(module), name))


def modules_loaded_by(statement):
    program = f"{statement}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert finished.returncode == 0, finished.stderr
    return set(json.loads(finished.stdout.splitlines()[-1]))


@pytest.mark.parametrize("gate", ["site_gate", "job_gate"])
def test_a_gate_loads_nothing_that_trains(gate):
    """It stands in a process that keeps a connection for months, and looks at settings."""
    assert modules_loaded_by(f"import fedannot.custom.flare.{gate}") & {"torch", "monai", "scipy.stats"} == set()


@pytest.mark.parametrize("module", ["strict_model", "data.phantoms.settings", "settings", "methods.lookup"])
def test_settings_are_types_alone(module):
    loaded = modules_loaded_by(f"import fedannot.custom.{module}")
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
    server = ("methods.feda3i.server", "run.course", "aggregation.streaming_average", "methods.fedia.site")
    assert loaded & {f"fedannot.custom.{name}" for name in server} == set()
    unwanted = {"monai", "monai.apps", "matplotlib", "typer", "rich", "pandas", "sklearn", "skimage"}
    assert loaded & unwanted == set()
    assert not any(name.startswith("fedannot.apps") for name in loaded)


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=identify)
def test_modules_and_tests_that_a_page_names_are_there(page):
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:tests|transforms|custom|apps)/[\w/]+\.py\b", text))
    named |= {f"custom/{name}.py" for name in re.findall(r"`((?:approval|data|flare|methods|run)/[\w/]+)`", text)}
    assert sorted(name for name in named if not (ROOT / name).is_file()) == []
