"""Times taken in turns, and the table that all speed benchmarks of one run write to."""

import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

RESULTS = Path("runs/bench/speed")
REPEATS = 7
TURNS = 5


@dataclass(frozen=True)
class Measurement:
    """One line of the table; seconds are medians, the ratio is to what it is compared with, the goal an upper bound."""

    what: str
    seconds: float | None = None
    against: str = ""
    against_seconds: float | None = None
    ratio: float | None = None
    goal: str = ""
    note: str = ""


class SpeedTable:
    """Collects measurements and writes them when the run is over."""

    def __init__(self) -> None:
        self.lines: list[Measurement] = []

    def add(self, measurement: Measurement) -> None:
        """Add a line, and show it."""
        self.lines.append(measurement)
        print(f"\n{measurement}")

    def compare(self, times: Mapping[str, float], *, reference: str, what: str, goals: Mapping[str, str]) -> None:
        """Add a line for everything that was timed in turns, with the ratio to the reference."""
        for name, seconds in times.items():
            if name != reference:
                ratio = seconds / times[reference]
                self.add(
                    Measurement(f"{what}: {name}", seconds, reference, times[reference], ratio, goals.get(name, ""))
                )

    def write(self) -> None:
        """Write the lines as JSON and as a Markdown table, into the folder from which the benchmarks were started."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        machine = {
            "processor": _processor(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        }
        content = {"machine": machine, "lines": [asdict(line) for line in self.lines]}
        (RESULTS / "table.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        rows = ["| what | time | beside | time | ratio | goal | |", "|---|---|---|---|---|---|---|"]
        for line in self.lines:
            ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
            cells = [
                line.what,
                _time(line.seconds),
                line.against,
                _time(line.against_seconds),
                ratio,
                line.goal,
                line.note,
            ]
            rows.append(f"| {' | '.join(cells)} |")
        (RESULTS / "table.md").write_text("\n".join(rows) + "\n", encoding="utf-8")


def time_in_turns(actions: Mapping[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, float]:
    """Return the median seconds of each action; they take turns, so that all meet the same state of the machine."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    for _ in range(repeats):
        for name, action in actions.items():
            started = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def compare_processor_times(
    table: SpeedTable, what: str, actions: Mapping[str, Callable[[], object]], *, turns: int = TURNS, number: int = 1
) -> None:
    """Let actions take turns, and add a line with the median CPU seconds of each; the first is the reference.

    Args:
        table: gets the lines.
        what: what is done.
        actions: what is timed, by name; each is made once before.
        turns: how often each is timed.
        number: of what an action does; seconds are of one.
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(1 + turns):
        for name, action in actions.items():
            began = time.process_time()
            action()
            if turn:
                seconds[name].append((time.process_time() - began) / number)
    reference = next(iter(actions))
    for name, values in seconds.items():
        ratios = [value / other for value, other in zip(values, seconds[reference], strict=True)]
        each, other = statistics.median(values), statistics.median(seconds[reference])
        note = f"{_time(min(values))} to {_time(max(values))}; ratio {min(ratios):.3f} to {max(ratios):.3f}"
        table.add(Measurement(f"{what}: {name}", each, reference, other, statistics.median(ratios), note=note))


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} × {names[0]}" if names else platform.processor()
