"""The sites of a federation as the boundary profile sees them: the server asks for curves and standard errors."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...annotation_bias.profile.alignment import Template
from ...annotation_bias.profile.estimation import SiteCurves
from ...interface.views import Round
from ...outbound.fields import MINIMUM_CASES
from ...task_names import MEASURE_BOUNDARY_PROFILE, MEASURE_PROFILE_ERROR
from .outbound import (
    CURVE_LEVELS,
    MOVED_PATIENTS,
    PROFILE_CURVE,
    PROFILE_ERROR,
    PROFILE_HALVINGS,
    PROFILE_PATIENTS,
    PROFILE_UNIT,
)
from .profile_request import ProfileRequest


class AskedSites:
    """Sites that are asked in a round.

    At first each measures at its own first scale. Where all have the same, that is the first scale of all, and one
    question less.

    Args:
        this_round: in which they are asked.
        num_classes: number of foreground classes C.

    Attributes:
        moved: the sites that have moved all their masks back before they measured, with numbers of patients.
    """

    def __init__(self, this_round: Round, num_classes: int) -> None:
        self._round, self._num_classes = this_round, num_classes
        self._first: dict[str, SiteCurves] = {}
        self._halvings: dict[str, int] = {}
        self.moved: dict[str, int] = {}

    def coarsest(self) -> int:
        """Ask all sites for curves at their own first scale; return that of the middle one."""
        answers = self._round.ask(MEASURE_BOUNDARY_PROFILE)
        self._first = self._read(answers)
        self._halvings = {site: answers[site][PROFILE_HALVINGS] for site in self._first}
        return statistics.median_low(self._halvings.values()) if self._halvings else 0

    def curves(self, halvings: int, biases: Mapping[str, Sequence[float]]) -> dict[str, SiteCurves]:
        """Return the curves of every site that answers, see :class:`ProfileSites`."""
        if not biases and set(self._halvings.values()) <= {halvings}:
            return self._first
        requests = {
            site: ProfileRequest(halvings=halvings, biases=tuple(biases.get(site, ()))).message()
            for site in sorted(self._first)
        }
        if not requests:
            return {}
        return self._read(self._round.ask(MEASURE_BOUNDARY_PROFILE, sorted(requests), own_messages=requests))

    def standard_errors(
        self, biases: Mapping[str, Sequence[float]], templates: Mapping[str, Sequence[Template | None]]
    ) -> dict[str, list[float]]:
        """Return by site and class the standard error, infinite where there is none; see :class:`ProfileSites`."""
        nothing = (0.0,) * self._num_classes
        requests = {
            site: ProfileRequest.of_templates(biases.get(site, nothing), of_classes).message()
            for site, of_classes in sorted(templates.items())
        }
        if not requests:
            return {}
        answers = self._round.ask(MEASURE_PROFILE_ERROR, sorted(requests), own_messages=requests)
        return {
            site: [math.inf if math.isnan(error) else error for error in answer[PROFILE_ERROR]]
            for site, answer in answers.items()
        }

    def _read(self, answers: Mapping[str, Mapping[str, Any]]) -> dict[str, SiteCurves]:
        """The curves of registered fields, which the guard has checked; a site without a pixel size has none.

        Nor has a class of fewer patients than a site may send.
        """
        self.moved |= {site: answer[MOVED_PATIENTS] for site, answer in answers.items() if MOVED_PATIENTS in answer}
        return {
            site: SiteCurves(
                np.array(answer[PROFILE_CURVE], dtype=np.float64).reshape(self._num_classes, CURVE_LEVELS),
                tuple(count if count >= MINIMUM_CASES else 0 for count in answer[PROFILE_PATIENTS]),
                answer[PROFILE_UNIT],
            )
            for site, answer in sorted(answers.items())
            if answer[PROFILE_UNIT] > 0
        }
