"""How good the model of a round is: on the server's test set where it has one, else on the sites' validation cases."""

from collections.abc import Mapping
from typing import Any, Protocol

from ..evaluation.score_records import RoundScores
from ..evaluation.scoring import Scoring
from ..interface.method import ServerMethod
from ..interface.views import Round
from ..outbound.fields import MINIMUM_CASES
from ..settings import RunSettings
from .server_test import ServerTest
from .state import RunFailedError
from .transport import Params

# Values that need no validation, by setting.
_WITHOUT_VALIDATION = {"final_model": "mean_of_last", "scored_rounds": "last_5"}


class ScoreRequest(Protocol):
    """Sends the sites a model, by default the global one, with a task, and returns their usable answers by name."""

    def __call__(self, number: int, task: str, *, params: Params | None = None) -> dict[str, dict[str, Any]]:
        """Ask in a round."""


class RoundScoring:
    """Scores models, as often as the settings say.

    Args:
        settings: the job's.
        method: what the job's method does at the server.
        server_test: the server's test set.
        ask: asks the sites.

    Attributes:
        of_sites: the main score of each site in the last validation; the loop empties it before a round.
    """

    def __init__(self, settings: RunSettings, method: ServerMethod, server_test: ServerTest, ask: ScoreRequest) -> None:
        self.of_sites: dict[str, float] = {}
        self._settings, self._method, self._server_test, self._ask = settings, method, server_test, ask
        self._scoring = Scoring.of(settings.task)

    def score(self, this_round: Round, params: Params, *, last: bool = False) -> RoundScores:
        """Return the scores of a model, by the server or the sites; none in a round after which nobody scores.

        Args:
            this_round: the round.
            params: the model.
            last: score it whatever the settings say.
        """
        if self._has_server_test(this_round):
            if last or self._settings.is_scored_after(this_round.number, at_server=True):
                scores = self._server_test.score(dict(params), _sites_are_embedded(this_round))
                return scores or self._scoring.unscored
            return self._scoring.unscored
        if not last and not self._settings.is_scored_after(this_round.number, at_server=False):
            return self._scoring.unscored
        return self._validated(this_round.number, params) or self._scoring.unscored

    def validation_score(self, this_round: Round, scores: RoundScores) -> float | None:
        """Return the global model's score on validation cases of the sites, where it decides and the round has one.

        Args:
            this_round: the round.
            scores: of the round, which may be the sites' own.
        """
        number = this_round.number
        if not self._settings.needs_validation or not self._settings.is_scored_after(number, at_server=False):
            return None
        if scores.evaluated_on != "sites":
            pooled = self._validated(number)
            return None if pooled is None else pooled.main_score
        return scores.main_score

    def answers_without_score(self, round_number: int) -> Mapping[str, Mapping[str, Any]] | None:
        """Let the sites score the global model; return their answers where these give no score, else None."""
        answers = self._ask(round_number, self._scoring.site_task)
        pooled = self._scoring.pool(answers)
        return answers if pooled is None or pooled.main_score is None else None

    def no_validation(self, answers: Mapping[str, Mapping[str, Any]], key: str) -> RunFailedError:
        """Return the error of a run whose sites give no score.

        Args:
            answers: of the sites.
            key: the setting that asks for one.
        """
        cases = {site: int(answer["num_samples"]) for site, answer in answers.items()}
        if not cases:
            found = "no site answered"
        elif not any(cases.values()):
            found = "no site has validation cases"
        else:
            listed = ", ".join(f"{site} {number}" for site, number in cases.items())
            found = (
                f"the sites have too few validation cases ({listed}): a site reports a score of {MINIMUM_CASES} "
                "patients at least, for each class"
            )
        return RunFailedError(
            f"key {key!r} is 'best', but the sites' validation gives no {self._scoring.label}: {found}. Expected "
            f"a list 'validation' of {MINIMUM_CASES} patients or more in the datalist of a site (--validation 0.2 of "
            f"`fedannot data import` makes one), or {key} = {_WITHOUT_VALIDATION[key]}, which needs none."
        )

    def _validated(self, number: int, params: Params | None = None) -> RoundScores | None:
        """The scores of a model at the sites, by default of the global one; those of each are drawn with the round."""
        answers = self._ask(number, self._scoring.site_task, params=params)
        self.of_sites = self._scoring.of_sites(answers)
        return self._scoring.pool(answers)

    def _has_server_test(self, this_round: Round) -> bool:
        return self._method.is_scored_at_server and self._server_test.has_data(_sites_are_embedded(this_round))


def _sites_are_embedded(this_round: Round) -> bool:
    reports = this_round.reports.values()
    return bool(reports) and all(report.embedded_data for report in reports)
