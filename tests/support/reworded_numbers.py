"""Print everything that pages say in numbers and codes, as JSON, with the sentences of `apps/wording` or with others.

    python tests/support/reworded_numbers.py [--reworded]

With ``--reworded`` every text of two words and more in that package is another one before anything is imported.
"""

import ast
import dataclasses
import json
import re
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

WORDING = "fedannot.apps.wording"
FILES = Path(__file__).parents[1] / "apps" / "wording" / "version_1"


class Reworded(ast.NodeTransformer):
    """Another text in place of every one of two words and more; values and their formats stay."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        """Replace a text."""
        is_prose = isinstance(node.value, str) and " " in node.value.strip()
        return ast.copy_location(ast.Constant("Quite another text."), node) if is_prose else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        """Replace what stands between values."""
        parts = [ast.Constant(" ~ ") if isinstance(part, ast.Constant) else part for part in node.values]
        return ast.copy_location(ast.JoinedStr(parts), node)


class RewordedLoader(SourceFileLoader):
    """Compiles a module of the package again, with other texts."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the module's code."""
        path = self.get_filename(fullname)
        tree = Reworded().visit(ast.parse(self.get_data(path)))
        return compile(ast.fix_missing_locations(tree), path, "exec")


class RewordedFinder:
    """Finds the modules of the package."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return how a module is loaded."""
        spec = PathFinder.find_spec(name, path, target) if name.startswith(WORDING) else None
        if spec is not None and spec.origin is not None:
            spec.loader = RewordedLoader(name, spec.origin)
        return spec


def numbers() -> dict[str, Any]:
    """Return what pages and headlines rest on."""
    from fedannot.apps.audit.federation_page import bias_chart
    from fedannot.apps.audit.federation_report import federation_report
    from fedannot.apps.reports.run_page import _channels
    from fedannot.apps.wording.headline import leading
    from fedannot.apps.wording.site_audit import shown_conclusions
    from fedannot.apps.wording.steps import next_steps
    from fedannot.custom.run.reading import read_summary_file

    result: dict[str, Any] = {}
    for file in sorted(FILES.glob("a*.json")):
        summary = read_summary_file(file)
        tables = _channels(summary)
        if summary.method.startswith("audit"):
            report = federation_report(summary)
            result[f"{file.stem} lead"], tables = dataclasses.asdict(report.lead), (*tables, *report.tables)
        rows = [dataclasses.asdict(row) for table in tables for row in table.rows]
        kept = [{key: value for key, value in row.items() if key not in ("would", "reason")} for row in rows]
        # Where points and lines lie; titles are texts.
        charts = [re.findall(r'(?:class|[cxy][12xy]?)="[^"]*"', str(bias_chart(table))) for table in tables]
        result[file.stem] = [kept, charts]
    for name, audit in audits().items():
        kind, of = leading(audit)
        styles = [item.style for item in shown_conclusions(audit)]
        result[name] = [kind, [item.model_dump(mode="json") for item in of], styles, len(next_steps(audit, None))]
    return result


def audits() -> dict[str, Any]:
    """Audits that differ in what leads their pages."""
    from fedannot.custom.audit.findings import Conclusion, SiteAudit

    base = {
        "version": 2, "site": "a", "data": "", "method": "audit", "made": "", "model_sha256": "",
        "classes": ("lesion",), "predicted_by": {"folds": 1}, "task": "segmentation", "unit": "px",
        "num_cases": 9, "num_patients": 9,
    }  # fmt: skip
    known = {
        "parameter": "offset 1", "class_name": "lesion", "unit": "px", "estimate": 8.0, "low": 7.5, "high": 8.5,
        "patients": 9, "slope": 1.0, "auroc": 0.9, "effect": 8.0,
    }  # fmt: skip
    share = known | {"parameter": "swapped 0", "class_name": "", "unit": None, "estimate": 0.9, "effect": 0.9}
    cases = {
        "confirmed": [known | {"status": "confirmed"}],
        "unlike others": [known | {"status": "unknown", "evidence": [{"code": "reference_unsure"}]}],
        "unfit": [known | {"status": "unknown", "evidence": [{"code": "model_unfit"}]}],
        "mislabelled": [
            share | {"status": "confirmed"},
            known | {"status": "unknown", "evidence": [{"code": "mislabelled"}]},
        ],
        "classes left": [share | {"status": "small"}],
        "unknown": [known | {"status": "unknown", "evidence": [{"code": "auroc_low", "numbers": {"auroc": 0.5}}]}],
        "alike": [known | {"status": "not_significant"}],
        "nothing": [],
    }
    return {
        name: SiteAudit.model_validate(
            base | {"conclusions": [Conclusion.model_validate(conclusion) for conclusion in conclusions]}
        )
        for name, conclusions in cases.items()
    }


def texts() -> list[str]:
    """Return some sentences, to see that they are others."""
    from fedannot.apps.wording.headline import headline

    return [headline(audit) for audit in audits().values()]


if __name__ == "__main__":
    if "--reworded" in sys.argv:
        sys.meta_path.insert(0, RewordedFinder)  # type: ignore[arg-type]
    print(json.dumps({"numbers": numbers(), "texts": texts()}))
