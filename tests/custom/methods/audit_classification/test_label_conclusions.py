"""What a site is told of its own labels, in words."""

from typing import Any

import pytest

from fedannot.custom.audit.findings import SiteAudit
from fedannot.custom.methods.audit_classification.conclusions import with_conclusion

AUDIT = SiteAudit(
    site="site-1", data="data", method="audit_classification", made="2026-01-01T00:00:00+00:00", model_sha256="0",
    judged_by="a model", task="classification", classes=("a", "b"), unit=None, num_cases=9, num_patients=9,
)  # fmt: skip


def told(
    share: float | None, p_value: float | None = 0.001, *, established: bool = False, half: float = 0.09
) -> dict[str, Any]:
    low, high = (None, None) if share is None else (share - half, share + half)
    return {
        "estimate": share, "low": low, "high": high,
        "patients": 9, "slope": 1.0, "auroc": 0.9, "deviation": share, "p_value": p_value,
        "established": established, "reason": "because",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("values", "verdict", "sentence"),
    [
        (told(0.2, established=True), "established", "About 1 in 5 labels is wrong (11 to 29 %), sure."),
        (told(0.62, established=True), "established", "About 62 % of the labels are wrong (53 to 71 %), sure."),
        (
            told(0.4, established=True),
            "established",
            "About 2 in 5 labels are wrong (31 to 49 %), sure.",
        ),
        (
            told(0.04), "small",
            "Labels are about right: 4 % look wrong (0 to 13 %), which is too little to act on.",
        ),
        (told(0.02, 0.6), "none", "Labels are about right: 2 % look wrong (0 to 11 %)."),
        (told(0.04, 0.2, half=0.03), "none", "Labels are about right: 4 % look wrong (1 to 7 %)."),
        (told(0.2, 0.2), "none", "Some labels may be wrong, 20 % (11 to 29 %); not sure."),
        (told(0.2, None), "cannot tell", "It cannot be told how many labels are wrong."),
        (told(None, None), "cannot tell", "It cannot be told how many labels are wrong."),
    ],
)  # fmt: skip
def test_sentences(values: dict[str, Any], verdict: str, sentence: str) -> None:
    (found,) = with_conclusion(AUDIT, {"wrong_labels": values}, 0.05).conclusions
    assert (found.verdict, found.sentence, found.unit, found.class_name) == (verdict, sentence, None, "")
    assert (found.estimate, found.deviation, found.reason) == (values["estimate"], values["deviation"], "because")


def test_a_server_that_tells_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="estimate"):
        with_conclusion(AUDIT, {"wrong_labels": {"estimate": "<script>"}}, 0.05)
