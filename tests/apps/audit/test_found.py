import shutil

import pytest

from fedannot.apps.audit.found import find_audit, find_audits
from fedannot.custom.audit.findings import read_audit, write_audit
from fedannot.transforms.errors import DataError


@pytest.mark.parametrize("levels", [0, 1, 2], ids=["audit", "workspace", "run"])
def test_an_audit_is_found_from_every_folder_above_it(audit_of, levels):
    made = audit_of("classes")
    folder = [made.folder, *made.folder.parents][levels]
    assert find_audit(folder).folder == made.folder


def test_of_several_sites_one_must_be_named(audit_of):
    made = audit_of("classes")
    other = made.folder.parents[1] / "site-2" / "audit"
    shutil.copytree(made.folder, other)
    write_audit(other, made.audit.model_copy(update={"site": "site-2"}))
    run = made.folder.parents[1]
    assert [found.site for found in find_audits(run)] == ["site-1", "site-2"]
    assert find_audit(run, "site-2").folder == other
    with pytest.raises(DataError, match="audits of site-1, site-2; say which with --site"):
        find_audit(run)
    with pytest.raises(DataError, match="no audit of site 'site-3', but of: site-1, site-2"):
        find_audit(run, "site-3")


def test_two_audits_of_one_site_must_be_distinguished_by_their_folders(audit_of):
    made = audit_of("classes")
    shutil.copytree(made.folder, made.folder.parents[1] / "again" / "audit")
    with pytest.raises(DataError, match="found 2 audits of site-1; name the folder of one"):
        find_audits(made.folder.parents[1])


def test_a_folder_without_an_audit_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"found no findings\.json in it"):
        find_audits(tmp_path)
    with pytest.raises(DataError, match="there is no such folder"):
        find_audits(tmp_path / "absent")


def test_what_is_found_is_the_record(audit_of):
    made = audit_of("classes")
    assert find_audit(made.folder).audit == read_audit(made.folder)
