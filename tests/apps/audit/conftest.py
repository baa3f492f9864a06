import shutil
from pathlib import Path

import pytest
from support.audits import audited_classes, audited_images, audited_slices, audited_volumes

from fedannot.apps.audit.found import FoundAudit, find_audit
from fedannot.custom.audit.findings import read_audit, write_audit


@pytest.fixture(scope="session")
def made_audits(tmp_path_factory):
    """Audits that no test changes, by what they are of."""
    base = tmp_path_factory.mktemp("audits")
    return {
        "images": audited_images(base / "images", 4),
        "slices": audited_slices(base / "slices", 2),
        "volumes": audited_volumes(base / "volumes", 1),
        "classes": audited_classes(base / "classes", 20),
    }


@pytest.fixture
def audit_of(made_audits, tmp_path):
    """A copy of such an audit, with its data, that a test may change."""

    def copy(kind: str) -> FoundAudit:
        source = made_audits[kind].folder.parents[2]
        target = tmp_path / kind
        shutil.copytree(source, target)
        found = find_audit(target / "run")
        data = target / Path(found.audit.data).relative_to(source)
        write_audit(found.folder, found.audit.model_copy(update={"data": str(data)}))
        return FoundAudit(found.folder, read_audit(found.folder))

    return copy
