"""What a site's data manager is told of labels that do not look right; stays at the site."""

from .json_record import JsonRecord

SUSPICIONS_FILE = "label_suspicions.json"
SELECTION_FILE = "label_selection.jsonl"


class SuspectCase(JsonRecord):
    """A case whose label does not look right.

    Args:
        image: the image, relative to the site's data.
        given: its class.
        predicted: the class that the model takes it for.
        confidence: the model's probability of that class.
        clean_probability: how likely its loss is one of a right label.
        relabelled: whether it was trained on as the predicted class.
    """

    image: str
    given: str
    predicted: str
    confidence: float
    clean_probability: float
    relabelled: bool


class LabelSuspicions(JsonRecord):
    """The content of ``label_suspicions.json``, rewritten in every round.

    Args:
        site: the site's name.
        data: the folder with the site's data.
        method: the method whose rule it is.
        round_number: the round whose received model judged.
        noise_level: share of the cases that are suspect.
        coefficient: the probability below which a case is suspect.
        suspects: the suspect cases, the least likely first.
    """

    site: str
    data: str
    method: str
    round_number: int
    noise_level: float
    coefficient: float
    suspects: tuple[SuspectCase, ...]

    @property
    def other_class(self) -> tuple[SuspectCase, ...]:
        """Those that the model takes for another class than the given one, the surest first.

        Of the other suspect cases it is only not sure.
        """
        found = (suspect for suspect in self.suspects if suspect.predicted != suspect.given)
        # Of equals the least likely label stays first.
        return tuple(sorted(found, key=lambda suspect: -suspect.confidence))
