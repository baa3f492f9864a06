"""How far readers of an audit agree: percent agreement and Cohen's kappa of what both have decided."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

from scipy import stats

from .decisions import Decision, Decisions


@dataclass(frozen=True)
class Agreement:
    """How far two readers agree about the findings that both have accepted or kept.

    Attributes:
        readers: their names, the one who decided first before the other.
        findings: number of findings that both decided.
        agreeing: number of these with the same decision.
        kappa: Cohen's, from -1 to 1; None where chance alone makes them agree, as both always decide the same.
        is_blind: whether one of the two has decided all of them without seeing the decisions of others.
    """

    readers: tuple[str, str]
    findings: int
    agreeing: int
    kappa: float | None
    is_blind: bool

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of 90 % of the fraction of findings with the same decision."""
        ends = stats.binomtest(self.agreeing, self.findings).proportion_ci(0.9, method="wilson")
        return float(ends.low), float(ends.high)


def agreements(decisions: Decisions, findings: Collection[str]) -> tuple[Agreement, ...]:
    """Return the agreement of every two readers who have decided about the same findings.

    Args:
        decisions: of an audit; the last one of every reader counts, ``later`` is none.
        findings: ids of those that can be accepted: where only one decision is possible, all agree.
    """
    of_reader: dict[str, dict[str, Decision]] = {}
    for decision in decisions.valid:
        if decision.finding in findings:
            of_reader.setdefault(decision.reviewer, {})[decision.finding] = decision
    result = []
    for one, other in combinations(of_reader, 2):
        pairs = [
            (of_reader[one][name], of_reader[other][name])
            for name in of_reader[one]
            if name in of_reader[other] and "later" not in (of_reader[one][name].choice, of_reader[other][name].choice)
        ]
        if pairs:
            result.append(_agreement((one, other), pairs))
    return tuple(result)


def _agreement(readers: tuple[str, str], pairs: Sequence[tuple[Decision, Decision]]) -> Agreement:
    choices = [(first.choice, second.choice) for first, second in pairs]
    return Agreement(
        readers=readers,
        findings=len(pairs),
        agreeing=sum(first == second for first, second in choices),
        kappa=cohen_kappa(choices),
        is_blind=any(all(pair[side].is_blind for pair in pairs) for side in (0, 1)),
    )


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return (p_o - p_e) / (1 - p_e) of two readers' choices; None where p_e is 1.

    Args:
        pairs: choice of one and of the other, at least one pair.
    """
    total = len(pairs)
    observed = sum(first == second for first, second in pairs) / total
    names = {choice for pair in pairs for choice in pair}
    expected = sum(
        sum(first == name for first, _ in pairs) * sum(second == name for _, second in pairs) for name in names
    ) / (total * total)
    return None if expected == 1 else (observed - expected) / (1 - expected)
