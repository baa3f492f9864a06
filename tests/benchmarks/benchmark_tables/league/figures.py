"""The figures of the league, as records, and the file that holds them."""

import json
from pathlib import Path
from typing import Literal

from pydantic import JsonValue, ValidationError

from fedannot.custom.data.whole_files import write_text
from fedannot.custom.methods import METHODS
from fedannot.custom.records.round_records import Record
from fedannot.transforms.errors import DataError, describe_validation_error
from fedannot.transforms.strict_files import read_json

from .settings import Choice

LEAGUE_FILE = "league.json"
REFERENCE = "fedavg"
# Of this project and of no paper; all others with one model for all sites are its rivals.
OURS = ("auto", "auto_classification")


def shown_name(method: str) -> str:
    """Return a method's name on a page, where both tasks are side by side."""
    return OURS[0] if method in OURS else method


def gives_models_to_sites(method: str) -> bool:
    """Return whether a method gives sites the models of single other sites; False for an unknown name."""
    return any(known.name == method and known.models_to_sites for known in METHODS)


class CaseDifference(Record):
    """How a method's final models differ from another's in the same test cases, in points.

    Attributes:
        mean: difference, of Dice or of the fraction of right classes.
        low: lower end of its 95 % interval, by resampling patients; None of a single patient.
        high: the upper end, as above.
        p: of Wilcoxon's signed-rank test over patients, with Holm's correction over the row's methods.
    """

    mean: float
    low: float | None
    high: float | None
    p: float | None


class Machine(Record):
    """Where a run was computed.

    Attributes:
        processor: its name, or that of the GPU; None of a run of an earlier version.
        torch: the version of PyTorch, as above.
    """

    processor: str | None = None
    torch: str | None = None


class MethodFigures(Record):
    """What is reported of a method in a row; scores in percent, differences in points.

    What was not known when a file of version 1 was written is None or empty.

    Attributes:
        method: its name.
        settings: what its job was given beside the row's settings.
        is_personal: whether each site keeps a model of its own.
        scores: Dice or macro F1 of each seed.
        mean: of them.
        standard_deviation: over the seeds; None for one.
        difference: mean difference to federated averaging, paired by seed; None for federated averaging itself.
        p_seeds: of the paired t-test; None without one.
        p_cases: of Wilcoxon's signed-rank test over patients, with Holm's correction over the row's methods.
        on_cases: the same test with its difference; None for methods with models of each site.
        on_cases_of_rival: as above, against the row's best rival.
        left_empty: of the test images without annotation the percentage that is left empty, of each seed.
        slope: points that the score gains per round in the last rounds, mean over the seeds.
        generic: Dice on the test set of each seed, where methods with models of each site are in the row.
        own: mean Dice of the sites' own cases of each seed, as above.
        seconds_per_round: by the clock, mean over the seeds; other runs may load the machine.
        cpu_seconds_per_round: of all cores together, with loading and scoring, as above; None where no run knows it.
        memory_mb: most of a run's process.
        model_mb: of the model that a site sends in a round, in 10⁶ bytes; None where the run's state is gone.
        fields: names of the declared fields that may leave a site in addition to those of federated averaging.
        machines: where the run of each seed was computed.
        commits: of which code it was; empty in a file that does not say it, None of code without a commit.
    """

    method: str
    settings: dict[str, JsonValue] | None = None
    is_personal: bool
    scores: tuple[float, ...]
    mean: float
    standard_deviation: float | None
    difference: float | None
    p_seeds: float | None
    p_cases: float | None
    on_cases: CaseDifference | None = None
    on_cases_of_rival: CaseDifference | None = None
    left_empty: tuple[float | None, ...] = ()
    slope: float | None
    generic: tuple[float | None, ...] = ()
    own: tuple[float | None, ...] = ()
    seconds_per_round: float
    cpu_seconds_per_round: float | None = None
    memory_mb: float | None
    model_mb: float | None
    fields: tuple[str, ...]
    machines: tuple[Machine, ...] = ()
    commits: tuple[str | None, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether it is this project's own method."""
        return self.method in OURS

    @property
    def shown(self) -> str:
        """Its name on a page."""
        return shown_name(self.method)


class AbsentMethod(Record):
    """A method that has no figures in a row.

    Attributes:
        method: its name.
        status: whether it is not defined on the row's data, a run of it failed, or runs of it are not finished.
        reason: why.
    """

    method: str
    status: Literal["not defined", "failed", "unfinished"]
    reason: str


class LeagueFigures(Record):
    """What is reported of a row.

    Attributes:
        row: its name.
        what: what the data are.
        task: what is learnt.
        clean: the row of the same images with clean annotations; empty for none.
        seeds: the seeds.
        agreement: of the training annotations with the right ones, mean over the seeds in percent: Dice of masks, or
            how many labels are right; None where nobody knows the right ones.
        num_patients: patients of the test set, the pairs of Wilcoxon's test; None in a file that does not say it.
        methods: those that have figures.
        absent: those that have none.
    """

    row: str
    what: str
    task: str
    clean: str
    seeds: tuple[int, ...]
    agreement: float | None = None
    num_patients: int | None = None
    methods: tuple[MethodFigures, ...]
    absent: tuple[AbsentMethod, ...]

    @property
    def ranked(self) -> list[MethodFigures]:
        """The methods with one model for all sites, the best first."""
        return sorted((method for method in self.methods if not method.is_personal), key=lambda method: -method.mean)

    @property
    def ours(self) -> MethodFigures | None:
        """The project's own method, None where it is not in the row."""
        return next((method for method in self.methods if method.is_ours), None)

    @property
    def best_rival(self) -> MethodFigures | None:
        """The best method of a paper, without federated averaging; None without any."""
        return next((one for one in self.ranked if not one.is_ours and one.method != REFERENCE), None)

    @property
    def is_reference_alone(self) -> bool:
        """Whether it compares nothing: federated averaging was run alone, which says what noise costs."""
        others = any(method.method != REFERENCE for method in self.methods)
        return not others and all(method.status != "failed" for method in self.absent)

    @property
    def smallest_p(self) -> float | None:
        """The lower bound of p_cases: m · 2¹⁻ⁿ, for m tests and n patients that all differ in one direction.

        None if the number of patients is unknown.
        """
        num_tests = sum(method.on_cases is not None and method.on_cases.p is not None for method in self.methods)
        return None if self.num_patients is None else min(1.0, max(num_tests, 1) * 2.0 ** (1 - self.num_patients))

    @property
    def results(self) -> frozenset[tuple[str, int]]:
        """The methods and seeds that have a score."""
        return frozenset((method.method, seed) for method in self.methods for seed in self.seeds)

    @property
    def has_several_commits(self) -> bool:
        """Whether its runs are known to be of different code."""
        return len({commit for method in self.methods for commit in method.commits if commit}) > 1

    @property
    def is_on_several_machines(self) -> bool:
        """Whether methods of one seed are known to be of different processors or versions of PyTorch."""
        return any(
            len({processor for one in of_seed if (processor := one.processor)}) > 1
            or len({version for one in of_seed if (version := one.torch)}) > 1
            for of_seed in self.machines_of_seeds
        )

    @property
    def machines_of_seeds(self) -> list[list[Machine]]:
        """Of each seed where its runs were computed, as far as it is known."""
        return [
            [method.machines[index] for method in self.methods if index < len(method.machines)]
            for index in range(len(self.seeds))
        ]

    def is_on_other_processors(self, other: "LeagueFigures") -> bool:
        """Whether federated averaging is known to have run on other processors than in another row, seed by seed."""
        pairs = [_processors(self, seed) | _processors(other, seed) for seed in self.seeds]
        return any(len(processors) > 1 for processors in pairs)

    def of(self, method: str) -> MethodFigures | None:
        """Return a method's figures, None where it has none."""
        return next((figures for figures in self.methods if figures.method == method), None)


def _processors(row: LeagueFigures, seed: int) -> set[str]:
    """Of federated averaging, as far as it is known."""
    reference = row.of(REFERENCE)
    if reference is None:
        return set()
    machines = zip(row.seeds, reference.machines, strict=False)
    return {machine.processor for of, machine in machines if of == seed and machine.processor}


class League(Record):
    """All rows that were finished, and how settings were chosen.

    Version 1, without what may be absent here, is read as well.
    """

    version: Literal[1, 2] = 2
    rows: tuple[LeagueFigures, ...] = ()
    choices: tuple[Choice, ...] = ()

    @property
    def compared(self) -> tuple[LeagueFigures, ...]:
        """The rows in which methods are compared; all rows if there is none."""
        return tuple(row for row in self.rows if not row.is_reference_alone) or self.rows


def read_league(file: Path) -> League:
    """Read the rows of the league, none where there is no file.

    Raises:
        DataError: if the file holds something else.
    """
    if not file.is_file():
        return League()
    try:
        return League.model_validate(read_json(file, "the rows of the league")).model_copy(update={"version": 2})
    except ValidationError as error:
        raise DataError(describe_validation_error(error, source=str(file), model=League)) from error


def write_league(league: League, file: Path) -> None:
    """Write the rows of the league."""
    content = {"version": league.version, **league.plain()}
    write_text(file, json.dumps(content, indent=1, ensure_ascii=False) + "\n", shared=True)
