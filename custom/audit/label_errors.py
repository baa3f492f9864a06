"""The known error of a class of an image: another class."""

import numpy as np

from .known_errors import Classes, KnownError


class LabelTakenForAnother(KnownError[int]):
    """The image has the label of another class, any with the same probability."""

    def make_params(
        self,
        annotation: Classes,
        generator: np.random.Generator,
        *,
        num_classes: int,
        other: Classes | None,  # noqa: ARG002
    ) -> int | None:
        """Draw the other class of a label ``()``."""
        others = [label for label in range(num_classes) if label != int(annotation)]
        return int(generator.choice(others)) if others else None

    def apply(self, annotation: Classes, params: int) -> Classes:  # noqa: ARG002
        """Return the other label."""
        return np.array(params, dtype=np.uint8)
