"""What a person sees of NVFlare's log, and that nothing of it is lost in the files."""

import copy
import json
import logging
from pathlib import Path

import pytest
from nvflare.fuel.utils.log_utils import ConciseLogFilter, default_log_dict

from fedannot.custom.flare.console import ProgressFilter, show_progress_alone

SIMULATOR_LOG = Path(__file__).parents[3] / "site_configs" / "simulator_log.json"


def record(message: str, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("anything", level, __file__, 1, message, None, None)


@pytest.mark.parametrize(
    ("message", "level", "is_shown"),
    [
        ("Round 3/12 (warm-up): Dice 81.2 %, about 40 s left", logging.INFO, True),
        ("[identity=server, run=j]: Round 1/2: 8 sites train.", logging.INFO, True),
        ("Deploy and start the Server App.", logging.INFO, True),
        ("Start the clients run simulation.", logging.INFO, True),
        ("Round 1: loss 0.5084 after 9 steps.", logging.INFO, False),
        ("object has been downloaded to all 1 receivers - clear cache", logging.INFO, False),
        ("object has been downloaded to all 1 receivers - clear cache", logging.WARNING, True),
    ],
)
def test_rounds_and_warnings_are_shown(message: str, level: int, is_shown: bool) -> None:
    assert ProgressFilter().filter(record(message, level)) == is_shown


@pytest.fixture
def console() -> logging.Handler:
    """A handler of the root, taken away afterwards."""
    handler = logging.StreamHandler()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def test_only_nvflares_concise_console_is_made_quiet(console: logging.Handler) -> None:
    show_progress_alone()
    assert console.filters == [], "somebody else's handler, or a log that was asked for in full"
    console.addFilter(ConciseLogFilter(["custom"]))
    show_progress_alone()
    show_progress_alone()
    assert [type(item) for item in console.filters] == [ConciseLogFilter, ProgressFilter]
    assert not console.filter(record("Start persist model on server."))


def test_the_simulators_log_is_nvflares_but_for_the_console() -> None:
    ours = json.loads(SIMULATOR_LOG.read_text(encoding="utf-8"))
    expected = copy.deepcopy(default_log_dict)
    expected["formatters"]["consoleFormatter"]["fmt"] = ours["formatters"]["consoleFormatter"]["fmt"]
    expected["filters"]["progress"] = {"()": "fedannot.custom.flare.console.ProgressFilter"}
    expected["handlers"]["consoleHandler"]["filters"] = ["progress"]
    expected["loggers"]["pyhocon.config_parser"] = {"level": "ERROR"}
    assert ours == expected
