"""What is concluded of a site's labels, in words."""

import pytest

from fedannot.apps.wording.parameters import conclusion_in_words
from fedannot.custom.annotation_bias.parameters import WRONG_LABELS
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode, Status
from fedannot.custom.audit.findings import Conclusion


def conclusion(share: float | None, status: Status, half: float = 0.09, floor: float | None = None) -> Conclusion:
    low, high = (None, None) if share is None else (share - half, share + half)
    numbers = {} if floor is None else {"level": 0.05, "minimum_effect": floor}
    return Conclusion(
        parameter=WRONG_LABELS, estimate=share, low=low, high=high, patients=9, slope=1.0, auroc=0.9, effect=share,
        p_value=None, status=status, evidence=(Evidence(EvidenceCode.THRESHOLDS, numbers),),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (conclusion(0.2, Status.CONFIRMED), "About 1 in 5 labels is wrong (11 to 29 %), confirmed."),
        (conclusion(0.62, Status.CONFIRMED), "About 62 % of the labels are wrong (53 to 71 %), confirmed."),
        (conclusion(0.4, Status.CONFIRMED), "About 2 in 5 labels are wrong (31 to 49 %), confirmed."),
        (
            conclusion(0.04, Status.SMALL),
            "Labels are about right: 4 % look wrong (0 to 13 %), which is too little to act on.",
        ),
        (conclusion(0.02, Status.NOT_SIGNIFICANT), "Labels are about right: 2 % look wrong (0 to 11 %)."),
        (conclusion(0.04, Status.NOT_SIGNIFICANT, 0.03), "Labels are about right: 4 % look wrong (1 to 7 %)."),
        (conclusion(0.2, Status.NOT_SIGNIFICANT), "Some labels may be wrong, 20 % (11 to 29 %); not confirmed."),
        # The floor of the test counts, which is 5 % where an earlier version says nothing of it.
        (conclusion(0.2, Status.NOT_SIGNIFICANT, floor=0.3), "Labels are about right: 20 % look wrong (11 to 29 %)."),
        (conclusion(0.2, Status.UNKNOWN), "It is unknown how many labels are wrong."),
        (conclusion(None, Status.UNKNOWN), "It is unknown how many labels are wrong."),
    ],
)
def test_sentences(found: Conclusion, sentence: str) -> None:
    assert conclusion_in_words(found) == sentence
