"""Whether arms of a comparison differ, from their results per case: an interval first, then tests.

Cases of one patient are not independent, so patients are drawn and ranked, not cases. Seeds have the same test cases or
others of the same number; both are covered, as a patient counts with the mean of its seeds.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from ...custom.annotation_bias.significance import holm
from ...custom.data.federation import TEST_FOLDER
from ...custom.evaluation.case_results import Detection
from ...custom.records.round_records import Record
from ...transforms.array_types import Floats
from .result_rows import ResultRow

Metric = Literal["dice", "hd95", "nsd", "lesion_f1", "accuracy"]
METRICS: tuple[Metric, ...] = ("dice", "hd95", "nsd", "lesion_f1", "accuracy")

LEVEL = 0.95
NUM_DRAWS = 10_000
_DRAWS_AT_ONCE = 1000
# Of a single one nothing says how patients differ.
_FEWEST_PATIENTS = 2
_NO_SPREAD = 1e-12

# Of a case in a run: seed, site, patient, case.
CaseKey = tuple[int, str, str, str]


class CaseTest(Record):
    """How an arm's final models differ from the reference's, in the same cases.

    Attributes:
        arm: the arm.
        reference: the arm that it is compared with.
        metric: what is compared.
        evaluated_on: `test`, the server's test set, or `sites`, the sites' own cases.
        num_cases: pairs of cases, over all seeds.
        num_patients: how many patients they are of.
        mean: difference, arm less reference: the mean over seeds of the means over cases.
        low: lower end of its 95 % interval, by resampling patients within the seeds; None of a single patient.
        high: the upper end, as above.
        p_wilcoxon: of the signed-rank test on patients, two-sided; None where no patient differs, or of a single one.
        p_wilcoxon_holm: corrected for the number of arms.
        seeds_low: lower end of the 95 % interval over seeds, by Student's t; None for one seed.
        seeds_high: the upper end.
        p_seeds: of the paired t-test over seeds; None for one seed or equal differences.
        p_seeds_holm: corrected for the number of arms.
    """

    arm: str
    reference: str
    metric: Metric
    evaluated_on: Literal["test", "sites"]
    num_cases: int
    num_patients: int
    mean: float
    low: float | None
    high: float | None
    p_wilcoxon: float | None
    p_wilcoxon_holm: float | None
    seeds_low: float | None
    seeds_high: float | None
    p_seeds: float | None
    p_seeds_holm: float | None


def case_tests(rows: Sequence[ResultRow], reference: str, metric: Metric = "dice") -> tuple[CaseTest, ...]:
    """Compare every arm with a reference, case by case.

    The server's test set counts; without one the sites' own cases do. A case counts with the mean over the classes of
    which both arms have a value: an HD95 is not defined where an arm misses the class.

    Args:
        rows: results per case of all arms.
        reference: an arm.
        metric: what is compared.

    Returns:
        A test for each other arm that has a pair, in the order of the rows.
    """
    scores = _class_scores(rows, metric)
    known = scores.pop(reference, {})
    on: Literal["test", "sites"] = "test" if any(key[1] == TEST_FOLDER for key, _ in known) else "sites"
    differences = {arm: _case_differences(of_arm, known) for arm, of_arm in scores.items()}
    found = [_test(arm, reference, metric, on, PatientTable.of(pairs)) for arm, pairs in differences.items() if pairs]
    wilcoxon = _holm([test.p_wilcoxon for test in found])
    seeds = _holm([test.p_seeds for test in found])
    return tuple(
        test.model_copy(update={"p_wilcoxon_holm": of_cases, "p_seeds_holm": of_seeds})
        for test, of_cases, of_seeds in zip(found, wilcoxon, seeds, strict=True)
    )


def case_scores(rows: Iterable[ResultRow], metric: Metric) -> dict[str, dict[CaseKey, float]]:
    """Return the score of each case by arm: the mean over classes, and over the models that it is scored with.

    Args:
        rows: results per case; where any is of the server's test set, the others do not count.
        metric: `accuracy` is that of a classification.
    """
    values: dict[str, dict[CaseKey, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row, value in _counted(rows, metric):
        values[row.arm][_case_of(row)].append(value)
    return {arm: {key: sum(of) / len(of) for key, of in cases.items()} for arm, cases in values.items()}


def _counted(rows: Iterable[ResultRow], metric: Metric) -> Iterator[tuple[ResultRow, float]]:
    """The lines that count and have a value, with it."""
    rows = list(rows)
    has_test = any(row.site == TEST_FOLDER for row in rows)
    for row in rows:
        value = metric_of(row, metric)
        if (row.site == TEST_FOLDER or not has_test) and math.isfinite(value):
            yield row, value


def _case_of(row: ResultRow) -> CaseKey:
    return row.seed, row.site, row.patient, row.case


def _class_scores(rows: Iterable[ResultRow], metric: Metric) -> dict[str, dict[tuple[CaseKey, str], float]]:
    """The score of each class in each case by arm: the mean over the models that it is scored with."""
    values: dict[str, dict[tuple[CaseKey, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row, value in _counted(rows, metric):
        values[row.arm][_case_of(row), row.class_name].append(value)
    return {arm: {key: sum(of) / len(of) for key, of in classes.items()} for arm, classes in values.items()}


def _case_differences(
    of_arm: Mapping[tuple[CaseKey, str], float], known: Mapping[tuple[CaseKey, str], float]
) -> dict[CaseKey, float]:
    """The mean difference of each case over the classes that both arms have a value of.

    A case is the same by seed, site and its place in the list; patients are those of the reference.
    """
    of_places = {(_place_of(case), class_name): value for (case, class_name), value in of_arm.items()}
    differences: dict[CaseKey, list[float]] = defaultdict(list)
    for (case, class_name), value in known.items():
        if (place := (_place_of(case), class_name)) in of_places:
            differences[case].append(of_places[place] - value)
    return {case: sum(of_case) / len(of_case) for case, of_case in differences.items()}


def _place_of(case: CaseKey) -> tuple[int, str, str]:
    seed, site, _, number = case
    return seed, site, number


def metric_of(row: ResultRow, metric: Metric) -> float:
    """Return a metric of a line, NaN where it is not defined."""
    if metric == "accuracy":
        return float(row.detected == Detection.DETECTED) if row.predicted else math.nan
    return float(getattr(row, metric))


@dataclass(frozen=True)
class PatientTable:
    """Values of cases, summed by seed and patient.

    Attributes:
        sums: ``(seeds, patients)``.
        counts: cases, as above.
    """

    sums: Floats
    counts: Floats

    @classmethod
    def of(cls, values: Mapping[CaseKey, float]) -> "PatientTable":
        """Sum values of cases."""
        seeds = sorted({key[0] for key in values})
        patients = sorted({key[1:3] for key in values})
        table = cls(*np.zeros((2, len(seeds), len(patients))))
        of_seed = {seed: number for number, seed in enumerate(seeds)}
        of_patient = {patient: number for number, patient in enumerate(patients)}
        for (seed, site, patient, _), value in sorted(values.items()):
            place = of_seed[seed], of_patient[site, patient]
            table.sums[place] += value
            table.counts[place] += 1
        return table

    @property
    def of_seeds(self) -> Floats:
        """The mean over the cases of each seed."""
        return np.asarray(self.sums.sum(axis=1) / self.counts.sum(axis=1))

    @property
    def of_patients(self) -> Floats:
        """The mean of each patient: over its cases within a seed, then over its seeds."""
        known = self.counts > 0
        means = np.divide(self.sums, self.counts, out=np.zeros_like(self.sums), where=known)
        return np.asarray(means.sum(axis=0) / known.sum(axis=0))

    def interval(
        self, *, seed: int = 0, level: float = LEVEL, num_draws: int = NUM_DRAWS
    ) -> tuple[float, float] | tuple[None, None]:
        """Return the percentile interval of the mean over seeds of means over cases, when patients are resampled.

        A draw has as many patients as there are, with repetitions, the same in all seeds. Of a single patient there is
        no interval.

        Args:
            seed: decides the draws.
            level: fraction of draws inside.
            num_draws: how many.
        """
        generator, count = np.random.default_rng(seed), self.sums.shape[1]
        if count < _FEWEST_PATIENTS:
            return None, None
        means: list[Floats] = []
        for start in range(0, num_draws, _DRAWS_AT_ONCE):
            size = min(_DRAWS_AT_ONCE, num_draws - start)
            times = generator.multinomial(count, np.full(count, 1 / count), size=size).astype(np.float64)
            cases = times @ self.counts.T
            of_seeds = np.divide(times @ self.sums.T, cases, out=np.zeros_like(cases), where=cases > 0)
            # A seed of whose cases none is drawn does not count in that draw.
            means.append(of_seeds.sum(axis=1) / (cases > 0).sum(axis=1))
        low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)


def _test(
    arm: str, reference: str, metric: Metric, on: Literal["test", "sites"], differences: PatientTable
) -> CaseTest:
    low, high = differences.interval()
    of_seeds = differences.of_seeds
    seeds_low = seeds_high = p_seeds = None
    if len(of_seeds) > 1 and of_seeds.std() > _NO_SPREAD:
        result = stats.ttest_1samp(of_seeds, 0)
        ends = result.confidence_interval(LEVEL)
        seeds_low, seeds_high, p_seeds = float(ends.low), float(ends.high), float(result.pvalue)
    return CaseTest(
        arm=arm,
        reference=reference,
        metric=metric,
        evaluated_on=on,
        num_cases=int(differences.counts.sum()),
        num_patients=differences.counts.shape[1],
        mean=float(of_seeds.mean()),
        low=low,
        high=high,
        p_wilcoxon=_wilcoxon(differences.of_patients),
        p_wilcoxon_holm=None,
        seeds_low=seeds_low,
        seeds_high=seeds_high,
        p_seeds=p_seeds,
        p_seeds_holm=None,
    )


def _wilcoxon(differences: Floats) -> float | None:
    """The p-value of the signed-rank test, two-sided; patients without a difference do not count.

    None of a single patient, whose p would be 1 whatever the difference.
    """
    if len(differences) < _FEWEST_PATIENTS:
        return None
    differing = differences[np.abs(differences) > _NO_SPREAD]
    return float(stats.wilcoxon(differing).pvalue) if len(differing) else None


def _holm(p_values: Sequence[float | None]) -> list[float | None]:
    corrected = iter(holm([value for value in p_values if value is not None]))
    return [None if value is None else next(corrected) for value in p_values]
