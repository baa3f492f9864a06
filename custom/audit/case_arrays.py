"""What an audit keeps of a case besides its findings: the prediction, and suggested annotations; stays at the site."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...transforms.array_types import Classes
from ...transforms.errors import DataError
from ..data.array_files import read_arrays
from ..data.whole_files import replaced

_PREDICTION, _SUGGESTION = "prediction", "suggestion-"


@dataclass(frozen=True)
class CaseArrays:
    """Arrays of a case in the network's image.

    Attributes:
        prediction: the most probable class ``(S, H, W[, D])``, S samples as in :class:`LoadedCase`.
        suggestions: by id of a finding the classes that are suggested in its place: an array of the shape of
            ``place``, or ``(S, H, W[, D])`` for a finding without a place.
    """

    prediction: Classes
    suggestions: Mapping[str, Classes]


def write_case_arrays(file: Path, arrays: CaseArrays) -> None:
    """Write a case's arrays in one step."""
    named: dict[str, Any] = {_SUGGESTION + name: suggestion for name, suggestion in arrays.suggestions.items()}
    with replaced(file) as new, new.open("wb") as stream:
        np.savez_compressed(stream, **{_PREDICTION: arrays.prediction} | named)


def read_case_arrays(file: Path) -> CaseArrays:
    """Read a case's arrays.

    Raises:
        DataError: if the file is missing, or is none of these.
    """
    try:
        result = read_arrays(file)
        if any(array.dtype != np.uint8 for array in result.values()):
            raise ValueError("arrays that are not of classes")
        prediction = result.pop(_PREDICTION)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{file}: {error}; expected the arrays of an audited case.") from error
    return CaseArrays(prediction, {name.removeprefix(_SUGGESTION): array for name, array in result.items()})
