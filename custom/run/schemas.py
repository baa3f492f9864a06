"""JSON Schemas of what runs leave behind, made from the records.

python -m fedannot.custom.run.schemas docs/schemas
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ..audit.decisions import Decisions
from ..audit.findings import SiteAudit
from ..data.whole_files import write_text
from ..records.round_records import AnyRoundRecord
from .summary_record import AnySummary

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, Mapping[str, Any]]:
    """Return the schemas by their files' names: of ``summary.json``, of a line of ``metrics.jsonl``, of an audit."""
    titles: dict[str, tuple[str, Any]] = {
        "summary.schema.json": ("Run, version 2: summary.json", AnySummary),
        "metrics.schema.json": ("Round, version 1: metrics.jsonl", AnyRoundRecord),
        "findings.schema.json": ("Audit of a site, version 2: findings.json", SiteAudit),
        "decisions.schema.json": ("Decisions of a review, version 2: decisions.json", Decisions),
    }
    return {
        name: {"$schema": _DIALECT, "title": title} | TypeAdapter(kind).json_schema()
        for name, (title, kind) in titles.items()
    }


def schema_text(schema: Mapping[str, Any]) -> str:
    """Return a schema as its file holds it."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def write_schemas(folder: Path) -> None:
    """Write the schemas into a folder, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        write_text(folder / name, schema_text(schema), shared=True)


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
