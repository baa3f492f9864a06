"""What version 1 wrote, with sentences in place of codes, gives the lines that version 1 made of it.

The files are of its jobs on generated images, and the lines were printed by its own code. Headlines,
how well errors are found, and titles of tables and kinds are those of this version.
"""

from pathlib import Path

import pytest
from support.audit_lines import lines_of_audit, lines_of_summary

from fedannot.custom.annotation_bias.estimate_record import ParameterRecord
from fedannot.custom.annotation_bias.statuses import EvidenceCode, Status
from fedannot.custom.audit.findings import Conclusion, SiteAudit
from fedannot.custom.data.json_record import read_record
from fedannot.custom.methods.auto.records import BiasRecord, RollbackRecord
from fedannot.custom.methods.auto_classification.records import NoiseLevelRecord
from fedannot.custom.run.reading import read_summary_file

FILES = Path(__file__).parent / "version_1"


def lines(name: str) -> list[str]:
    return (FILES / f"{name}.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("job", ["audit", "audit_classification", "auto", "auto_classification"])
def test_a_summary_gives_the_same_lines(job: str) -> None:
    summary = read_summary_file(FILES / f"{job}.json")
    assert summary.version == 1
    assert lines_of_summary(summary) == lines(job)


@pytest.mark.parametrize("name", ["findings", "label_findings"])
def test_an_audit_gives_the_same_lines(name: str) -> None:
    audit = read_record(FILES / f"{name}.json", SiteAudit)
    assert audit is not None
    assert lines_of_audit(audit) == lines(name)
    # It is kept as version 2, and then read as that.
    again = SiteAudit.model_validate(audit.model_dump(mode="json"))
    assert (again, again.version) == (audit, 2)


KNOWN = {"estimate": 3.0, "low": 2.5, "high": 3.5, "patients": 9, "slope": 1.0, "auroc": 0.9, "deviation": 2.0}


@pytest.mark.parametrize(
    ("p_value", "confirmed", "reason", "status", "code"),
    [
        (0.001, True, "Established: +2.00 from neutral", Status.CONFIRMED, None),
        (0.001, False, "Too small to act on: +2.00 from neutral", Status.SMALL, None),
        (0.03, False, "Not established: +2.00 from neutral, above 0.01.", Status.NOT_SIGNIFICANT, None),
        (0.03, False, "Said otherwise.", Status.SMALL, None),
        (0.3, False, "Said otherwise.", Status.NOT_SIGNIFICANT, None),
        (0.001, False, "Cannot tell: the site's other samples do not side with it.", Status.UNKNOWN, None),
        (
            None, False, "Cannot tell: it is not known where neutral lies (+2.00).", Status.UNKNOWN,
            EvidenceCode.REFERENCE_UNSURE,
        ),
        (
            None, False, "Cannot tell: the model finds too little of what is annotated to judge it: in 3% of the",
            Status.UNKNOWN, EvidenceCode.MODEL_UNFIT,
        ),
        (
            None, False, "Cannot tell: most of the site's objects have the label of another class.", Status.UNKNOWN,
            EvidenceCode.MISLABELLED,
        ),
    ],
)  # fmt: skip
def test_a_parameter_has_its_status_and_keeps_its_sentence(
    p_value: float | None, confirmed: bool, reason: str, status: Status, code: EvidenceCode | None
) -> None:
    values = KNOWN | {"p_value": p_value, "established": confirmed, "reason": reason}
    record = ParameterRecord.model_validate(values)
    assert (record.status, record.effect, record.p_value) == (status, 2.0, p_value)
    assert code is None or record.has(code)
    assert record.evidence[-1].names == {"text": reason}
    assert ParameterRecord.model_validate(record.plain()) == record


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        ("established", Status.CONFIRMED),
        ("small", Status.SMALL),
        ("none", Status.NOT_SIGNIFICANT),
        ("cannot tell", Status.UNKNOWN),
    ],
)
def test_a_conclusion_of_labels_has_its_key_and_its_status(verdict: str, status: Status) -> None:
    values = KNOWN | {"parameter": "wrong labels", "verdict": verdict, "sentence": "It was said.", "reason": "So."}
    result = Conclusion.model_validate(values)
    assert (str(result.parameter), result.status, result.p_value) == ("labels 0", status, None)


def test_an_estimate_of_all_sites_keeps_which_reference_levels_were_inferred() -> None:
    record = BiasRecord.model_validate(
        {
            "before_round": 6, "zero": {"1": "Half-way.", "2": "A median.", "3": "Reviewed."}, "decision": "Undone.",
            "inferred_zero": ["1", "2"], "balanced_zero": ["1"], "sites": {},
        }
    )  # fmt: skip
    levels = record.reference_levels
    assert [level is not None and level.is_balanced for level in levels.values()] == [True, False, False]
    assert [level is not None and level.is_inferred for level in levels.values()] == [True, True, False]
    assert (record.decision.outcome, record.decision.text) == ("text", "Undone.")


def test_a_rollback_check_and_a_noise_level_keep_their_numbers() -> None:
    rollback = RollbackRecord.model_validate(
        {"shadow_is": "the model of before round 6", "rounds": [], "has_vetoed": False, "sentence": "No shadow check."}
    )
    assert (rollback.rollback_of, rollback.before_round, rollback.text) == ("model_before", 6, "No shadow check.")
    values = {name: value for name, value in KNOWN.items() if name != "deviation"}
    values |= {"support": 0.9, "support_low": 0.8, "p_value": 0.001, "is_established": True}
    level = NoiseLevelRecord.model_validate(values | {"decision": "It trains.", "reason": "Established: +3.00"})
    assert (level.status, level.estimate, level.follows, level.text) == (Status.CONFIRMED, 3.0, "text", "It trains.")
