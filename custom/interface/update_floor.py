"""How many patients and samples an update must be of to leave a site."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...transforms.errors import DataError
from ..settings import ClassifierTrainingSettings, TrainingSettings
from ..training.loop import TrainingOutcome


class TooFewSamplesError(DataError):
    """An update would be of fewer patients or samples than the site lets leave; the text is for the site's log."""


@dataclass(frozen=True)
class UpdateFloor:
    """A site's own minimum for an update.

    An update of one step is the gradient of its samples, and one of several steps says of few samples nearly as much.
    The samples of a step may all be of one patient, as patches of a volume are; hence the two bounds.

    Attributes:
        patients: patients or volumes that a round's training must be over.
        samples_per_step: samples or patches that a full optimizer step must be over. The last step of an epoch may
            have fewer: what leaves is the sum of all steps.
    """

    patients: int = 1
    samples_per_step: int = 1

    @property
    def is_none(self) -> bool:
        """Whether anything will do."""
        return self == NO_FLOOR

    def check_patients(self, units: Sequence[str]) -> None:
        """Check the patients or volumes of samples.

        Args:
            units: of every sample.

        Raises:
            TooFewSamplesError: if they are too few.
        """
        if (result := len(set(units))) < self.patients:
            raise TooFewSamplesError(
                f"An update would be over {result} patients or volumes; this site's limits.json (smallest.patients) "
                f"wants at least {self.patients}."
            )

    def check_update(
        self,
        outcome: TrainingOutcome,
        training: TrainingSettings | ClassifierTrainingSettings,
        units: Sequence[str],
    ) -> None:
        """Check what a round was trained on.

        Args:
            outcome: of the training.
            training: its settings.
            units: the patient or volume of every sample that was trained on.

        Raises:
            TooFewSamplesError: if patients or samples are too few.
        """
        self.check_patients(units)
        if (result := min(training.batch_size, outcome.samples_per_epoch)) < self.samples_per_step:
            raise TooFewSamplesError(
                f"A training step is over {result} samples or patches; this site's limits.json "
                f"(smallest.samples_per_step) wants at least {self.samples_per_step}."
            )


# Of a site without a prepared kit, as in simulations.
NO_FLOOR = UpdateFloor()
