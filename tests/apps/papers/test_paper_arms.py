"""The rows of a paper's table differ in their methods and in what the row says, and those that branch can."""

from pathlib import Path

import pytest

from fedannot.apps.papers.reading import known_tables
from fedannot.apps.papers.running import TableRequest, table_arm
from fedannot.apps.runs.arm_differences import declared_differences
from fedannot.apps.runs.arms import plan
from fedannot.apps.runs.settings_files import SettingsFile
from fedannot.apps.runs.shared_rounds import check_shared_rounds
from fedannot.custom.components.merging import merged

# Rows that are another training by their names: FedProx, and the noise-robust Dice loss.
OWN = {
    "decoupled-table1": {"training.proximal_weight"},
    "feda3i-table2": {"training.proximal_weight", "training.loss"},
    "fedgsca-table10": {"training.proximal_weight"},
    "fedia-table1": {"training.loss"},
}


@pytest.mark.parametrize(
    "name", ["decoupled-table1", "feda3i-table2", "fedgsca-table10", "fedgsca-table11", "fedia-table1", "fedia-table3"]
)
def test_rows_train_alike_and_share_their_warm_up(name: str) -> None:
    named = known_tables()[name]
    request = TableRequest(named, Path("out"), changes=dict.fromkeys(named.table.expected_changes, "a file"))
    # Of each data set one condition; the others have the same training.
    keys = {named.condition(key).data: key for key in named.conditions}
    differing = set()
    for key in keys.values():
        of_set = named.condition(key).settings
        for group in named.table.groups:
            arms = [table_arm(request, key, group, row.name, row.arm) for row in group.rows if row.arm is not None]
            planned = plan(arms, merged(group.changes, request.changes or {}))
            sets = {arm.name: SettingsFile.read(arm.job, of_set).values for arm in planned}
            settings = {arm.name: arm.job.settings_with(merged(sets[arm.name], arm.overrides)) for arm in planned}
            differences = declared_differences(planned, settings, [], data_given=True)
            assert {each.why for each in differences} <= {"own setting"}
            differing |= {each.key for each in differences}
            check_shared_rounds(planned, settings, data_given=True)
    assert differing == OWN.get(name, set())
