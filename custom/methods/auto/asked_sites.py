"""The sites of a federation as the boundary profile sees them: the server asks for curves and standard errors."""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from ...annotation_bias.noisy_fields import noise_of
from ...annotation_bias.profile.alignment import Template
from ...annotation_bias.profile.estimation import SiteCurves
from ...annotation_bias.profile.noisy_curves import errors_with_noise, noisy_site_curves
from ...interface.views import Round
from ...outbound.fields import MINIMUM_CASES
from ...records.plain_values import finite
from ...task_names import MEASURE_BOUNDARY_PROFILE, MEASURE_PROFILE_ERROR
from .outbound import (
    CURVE_LEVELS,
    GRID_HALVINGS,
    GRID_MICROMETRES,
    MOVED_PATIENTS,
    NUM_SAMPLES,
    PROFILE_CURVE,
    PROFILE_ERROR,
    PROFILE_HALVINGS,
    PROFILE_PATIENTS,
    PROFILE_RADIUS,
    PROFILE_UNIT,
    PROFILE_VECTOR,
)
from .profile_request import ProfileRequest

_MICROMETRES = 1000


class NoisyAnswer(TypedDict):
    """What a site that hides single patients has said at a scale, as plain values.

    Attributes:
        values: the vectors of all classes, see :func:`.noisy_site_curves`.
        noises: standard deviation of the noise in each of them.
        patients: of the site.
        unit: size of a pixel of the scale in millimetres, in pixels without spacing.
        biases: by which its contours were moved.
    """

    values: list[float]
    noises: list[float]
    patients: int
    unit: float
    biases: list[float]


class KeptCurves(TypedDict):
    """What a site that hides nobody has said at a scale, as plain values.

    Attributes:
        curves: of all classes one after the other, None where there is no number.
        patients: of each class.
        unit: size of a pixel of the scale in millimetres, in pixels without spacing.
        radii: of each class, None where it was not said.
        biases: by which its contours were moved.
    """

    curves: list[float | None]
    patients: list[int]
    unit: float
    radii: list[float | None]
    biases: list[float]


class KeptAnswers(TypedDict):
    """What sites have said, by their names and numbers of halvings."""

    curves: dict[str, dict[str, KeptCurves]]
    noisy: dict[str, dict[str, NoisyAnswer]]


class AskedSites:
    """Sites that are asked in a round.

    At first each measures at its own first scale. Where all have the same, that is the first scale of all, and one
    question less. A site that hides single patients says no more than its scale then, and by how much its bias may be
    wrong the server makes of the noise.

    No site is asked twice for a scale. Where one joins, the others' curves are those that they have sent: contours that
    would now be moved by another bias move the curve by the difference. The first scale stays that of the others.

    Args:
        this_round: in which they are asked.
        num_classes: number of foreground classes C.
        kept: earlier answers, to which new ones are added.
        names: of the sites that are asked; None for all. Of others there is what is kept.

    Attributes:
        moved: the sites that have moved all their masks back before they measured, with numbers of patients.
        samples: by site the number that it trains on, as far as its claim counts.
    """

    def __init__(
        self, this_round: Round, num_classes: int, kept: KeptAnswers, names: Collection[str] | None = None
    ) -> None:
        self._round, self._num_classes, self._names = this_round, num_classes, names
        self._kept, self._noisy = kept["curves"], kept["noisy"]
        self._first: dict[str, SiteCurves] = {}
        self._hiding: dict[str, int] = {}
        self._halvings: dict[str, int] = {}
        self._measured: dict[str, SiteCurves] = {}
        self.moved: dict[str, int] = {}
        self.samples: dict[str, int] = {}

    def coarsest(self) -> int:
        """Ask sites for curves at their own first scale; return that of the middle one, or the one that is kept."""
        answers = self._round.ask(MEASURE_BOUNDARY_PROFILE, None if self._names is None else sorted(self._names))
        self._first = self._read(answers)
        self._hiding = {site: answer[GRID_HALVINGS] for site, answer in sorted(answers.items()) if _is_hiding(answer)}
        self._halvings = {site: answers[site].get(PROFILE_HALVINGS, 0) for site in self._first}
        every = [*self._halvings.values(), *self._hiding.values()]
        if self._names is not None:
            self._hiding |= dict.fromkeys(self._noisy.keys() - answers.keys(), 0)
            scales = [int(scale) for known in (self._kept, self._noisy) for of in known.values() for scale in of]
            every = [max(scales)] if scales else every
        return statistics.median_low(every) if every else 0

    def curves(self, halvings: int, biases: Mapping[str, Sequence[float]]) -> dict[str, SiteCurves]:
        """Return the curves of every site that answers, see :class:`ProfileSites`."""
        hiding = self._hiding_curves(halvings, biases)
        if not biases and set(self._halvings.values()) <= {halvings}:
            new = self._first
        else:
            new = self._read(self._asked(sorted(self._first), halvings, biases))
        nothing = (0.0,) * self._num_classes
        for site, curves in new.items():
            self._kept.setdefault(site, {})[str(halvings)] = _plain(curves, biases.get(site, nothing))
        others = {
            site: _kept_curves(of[str(halvings)], biases.get(site, nothing))
            for site, of in self._kept.items()
            if site not in self._first and str(halvings) in of
        }
        self._measured = others | new | hiding
        return self._measured

    def standard_errors(
        self, biases: Mapping[str, Sequence[float]], templates: Mapping[str, Sequence[Template | None]]
    ) -> dict[str, list[float]]:
        """Return by site and class the standard error, infinite where there is none; see :class:`ProfileSites`."""
        nothing = (0.0,) * self._num_classes
        requests = {
            site: ProfileRequest.of_templates(biases.get(site, nothing), of_classes).message()
            for site, of_classes in sorted(templates.items())
            if site in self._first
        }
        answers = self._round.ask(MEASURE_PROFILE_ERROR, sorted(requests), own_messages=requests) if requests else {}
        said = {
            site: [math.inf if math.isnan(error) else error for error in answer[PROFILE_ERROR]]
            for site, answer in answers.items()
        }
        return errors_with_noise(self._measured, templates, said)

    def _asked(
        self, sites: Sequence[str], halvings: int, biases: Mapping[str, Sequence[float]]
    ) -> dict[str, dict[str, Any]]:
        """What sites say at a scale."""
        requests = {
            site: ProfileRequest(halvings=halvings, biases=tuple(biases.get(site, ()))).message() for site in sites
        }
        if not requests:
            return {}
        return self._round.ask(MEASURE_BOUNDARY_PROFILE, sorted(requests), own_messages=requests)

    def _hiding_curves(self, halvings: int, biases: Mapping[str, Sequence[float]]) -> dict[str, SiteCurves]:
        """The curves of sites that hide single patients; who has answered before is not asked again."""
        nothing, scale = [0.0] * self._num_classes, str(halvings)
        due = [
            site
            for site in self._hiding
            if scale not in self._noisy.get(site, {}) and (self._names is None or site in self._names)
        ]
        for site, answer in self._asked(due, halvings, biases).items():
            # One that has no budget left gives no answer; the size of its pixels is of another group of fields.
            is_whole = {PROFILE_VECTOR, GRID_MICROMETRES} <= answer.keys()
            if is_whole and not any(map(math.isnan, answer[PROFILE_VECTOR])):
                self._noisy.setdefault(site, {})[scale] = NoisyAnswer(
                    values=answer[PROFILE_VECTOR],
                    noises=answer[noise_of(PROFILE_VECTOR)],
                    patients=answer["num_patients"],
                    unit=answer[GRID_MICROMETRES] / _MICROMETRES,
                    biases=list(biases.get(site, nothing)),
                )
        known = {site: self._noisy[site][scale] for site in self._hiding if scale in self._noisy.get(site, {})}
        return {
            site: noisy_site_curves(answer["values"], answer["noises"], answer["patients"], answer["unit"]).moved(
                np.subtract(biases.get(site, nothing), answer["biases"])
            )
            for site, answer in known.items()
        }

    def _read(self, answers: Mapping[str, Mapping[str, Any]]) -> dict[str, SiteCurves]:
        """The curves of registered fields, which the guard has checked; a site without a pixel size has none.

        Nor has a class of fewer patients than a site may send.
        """
        self.moved |= {site: answer[MOVED_PATIENTS] for site, answer in answers.items() if MOVED_PATIENTS in answer}
        self.samples |= {site: answer[NUM_SAMPLES] for site, answer in answers.items() if NUM_SAMPLES in answer}
        return {
            site: SiteCurves(
                np.array(answer[PROFILE_CURVE], dtype=np.float64).reshape(self._num_classes, CURVE_LEVELS),
                tuple(count if count >= MINIMUM_CASES else 0 for count in answer[PROFILE_PATIENTS]),
                answer[PROFILE_UNIT],
                radii=tuple(radius if radius > 0 else math.nan for radius in answer[PROFILE_RADIUS]),
            )
            for site, answer in sorted(answers.items())
            if answer[PROFILE_UNIT] > 0
        }


def _plain(curves: SiteCurves, biases: Sequence[float]) -> KeptCurves:
    """The curves that a site has sent, with the biases by which its contours were moved."""
    return KeptCurves(
        curves=finite(curves.curves.ravel().tolist()),
        patients=list(curves.patients),
        unit=curves.unit,
        radii=finite(list(curves.radii)),
        biases=list(biases),
    )


def _kept_curves(kept: KeptCurves, biases: Sequence[float]) -> SiteCurves:
    """What they would be with contours moved by these biases."""
    curves, radii = (np.array(values, dtype=np.float64) for values in (kept["curves"], kept["radii"]))
    return SiteCurves(
        curves.reshape(-1, CURVE_LEVELS), tuple(kept["patients"]), kept["unit"], radii=tuple(radii.tolist())
    ).moved(np.subtract(biases, kept["biases"]))


def _is_hiding(answer: Mapping[str, Any]) -> bool:
    """Whether a site withholds its curves, and may send them with noise."""
    return PROFILE_HALVINGS not in answer and GRID_HALVINGS in answer and answer["num_patients"] >= MINIMUM_CASES
