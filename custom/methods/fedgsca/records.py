"""What FedGSCA adds to sites' reports, and what a site keeps of a round's selection, as records."""

from ...records.round_records import Record

# In a site's run folder: a line for each round, for evaluation.
SELECTION_FILE = "label_selection.jsonl"


class NoiseLevel(Record):
    """What a site's report has: δ (Eq. 8), the fraction of its samples whose label does not look right."""

    noise_level: float | None


class DetectionRecord(Record):
    """What a site keeps of a round's selection of samples; it stays there.

    Attributes:
        round: the round.
        num_samples: of the site.
        coefficient: τ (Eq. 5).
        noise_level: δ (Eq. 8).
        num_suspects: samples outside the clean subset.
        num_pseudo: samples with a pseudo-label.
        num_used: samples that were trained on.
        num_wrong: wrong labels; None, like the next two, where true labels are not known.
        num_wrong_suspects: those of them that are suspects.
        num_right_pseudo: pseudo-labels that are right.
    """

    round: int
    num_samples: int
    coefficient: float
    noise_level: float
    num_suspects: int
    num_pseudo: int
    num_used: int
    num_wrong: int | None = None
    num_wrong_suspects: int | None = None
    num_right_pseudo: int | None = None
