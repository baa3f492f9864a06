"""The modules that a bundle carries a copy of, so that it reads and writes images by the project's own rules."""

import ast
import shutil
from pathlib import Path

from ... import transforms

# The package in the bundle; MONAI's command line finds it in the bundle's folder.
PACKAGE = "bundle_reading"
# What runs the bundle without the packages of MONAI's command line.
PROGRAM = "run.py"
_NEEDED = ("folder_images", "folder_results", "dicom_pictures", "volume_transforms")
_SOURCE = Path(transforms.__file__).parent


def write_reading_code(folder: Path) -> None:
    """Write :data:`PROGRAM` and :data:`PACKAGE` into a folder: what reads images and writes results."""
    modules = reading_modules()
    for name in modules:
        target = folder / PACKAGE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_SOURCE / name, target)
    for subfolder in {Path(name).parent for name in modules} | {Path()}:
        (folder / PACKAGE / subfolder / "__init__.py").write_text(
            '"""Copied from fedannot, which a bundle does not need."""\n', encoding="utf-8"
        )
    shutil.copyfile(Path(__file__).with_name("run_bundle.py"), folder / PROGRAM)


def reading_modules() -> list[str]:
    """Return the modules that reading the images of a folder needs, as paths in ``fedannot.transforms``."""
    waiting, known = [f"loading/{name}.py" for name in _NEEDED], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in known:
            known.add(name)
            waiting += _imported(name)
    return sorted(known)


def _imported(name: str) -> list[str]:
    """The project's own modules that a module imports."""
    tree = ast.parse((_SOURCE / name).read_text(encoding="utf-8"))
    result = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = Path(name).parents[node.level - 1]
            names = [node.module] if node.module else [item.name for item in node.names]
            result += [(base / f"{part.replace('.', '/')}.py").as_posix() for part in names]
    return result
