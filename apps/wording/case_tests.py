"""What tests over cases say, in words: the interval first."""

METRIC_NAMES = {
    "dice": "Dice",
    "hd95": "HD95",
    "nsd": "NSD",
    "lesion_f1": "lesion F1",
    "accuracy": "accuracy",
}


def metric_factor(metric: str) -> float:
    """Return what a metric is multiplied by where it is shown: distances stay, fractions become percent."""
    return 1.0 if metric == "hd95" else 100.0


def interval_in_words(metric: str, low: float | None, high: float | None) -> str:
    """Return an interval of a difference as it is shown, a dash where there is none."""
    if low is None or high is None:
        return "-"
    factor = metric_factor(metric)
    return f"{factor * low:+z.1f} to {factor * high:+z.1f}"


def p_value_in_words(p_value: float | None) -> str:
    """Return a p-value with three decimals, a dash where there is no test."""
    if p_value is None:
        return "-"
    return "< 0.001" if p_value < 0.001 else f"{p_value:z.3f}"


def evaluated_in_words(evaluated_on: str) -> str:
    """Return whose cases are scored, as a phrase."""
    return "the server's test set" if evaluated_on == "test" else "the sites' own cases"
