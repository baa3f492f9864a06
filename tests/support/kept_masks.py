"""A site of which a review has kept a mask."""

import json
import shutil
from pathlib import Path


def with_first_case_kept(data_folder: Path, folder: Path) -> Path:
    """Return a copy of a site's folder whose list of reviewed cases has the first training case as it is."""
    copy = shutil.copytree(data_folder, folder / "site")
    content = json.loads((copy / "datalist.json").read_text())
    (copy / "datalist.json").write_text(json.dumps(content | {"reference": content["training"][:1]}))
    return copy
