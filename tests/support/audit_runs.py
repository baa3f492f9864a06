"""What whole audits leave: at the sites, and at the server."""

import json
from pathlib import Path
from typing import Any


def findings(out: Path) -> dict[str, dict[str, Any]]:
    """What lies at each site, without the time and the place; all arrays that it names are there."""
    result = {}
    for file in sorted(out.glob("**/audit/findings.json")):
        audit = json.loads(file.read_text(encoding="utf-8"))
        assert all((file.parent / case["arrays"]).is_file() for case in audit["cases"] if case["arrays"])
        result[audit["site"]] = {key: value for key, value in audit.items() if key not in ("made", "data")}
    return result


def assert_no_case_at_the_server(out: Path, count: int) -> None:
    """Nothing that the server has names an image of the sites, of whom so many names there are."""
    server = out / "run" / "server"
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in server.rglob("*") if file.is_file()]
    names = {case["image"].rpartition("/")[2] for audit in findings(out).values() for case in audit["cases"]}
    assert len(names) == count
    assert texts
    assert not [name for text in texts for name in names if name in text]
