"""Reports in Chromium: they ask for nothing, fit a telephone, and everybody can use them."""

import plain_records
import pytest
from PIL import Image
from support.chromium import accessibility_faults, asked_addresses, chromium

from fedannot.apps.reports.run_page import write_run_page

SITES = {f"site-{number}": {"num_samples": 5, "train_loss": 0.5} for number in range(1, 51)}
ROUNDS = [{"round": number, "dice": 0.5, "weights": dict.fromkeys(SITES, 0.02)} for number in (1, 2)]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The report of a run of fifty sites with a wide picture."""
    folder = tmp_path_factory.mktemp("report")
    Image.new("RGB", (2000, 50)).save(folder / "dice.png")
    summary = plain_records.summary(sites=SITES, rounds=ROUNDS, settings={"a_long_name_of_a_setting": "x" * 300})
    return write_run_page(folder, summary, [folder / "dice.png"])


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])
def test_a_report_asks_for_nothing_and_fits(page, tmp_path, width, dark):
    with chromium(tmp_path, width=width, dark=dark) as browser:
        browser.get(page.as_uri())
        browser.execute_script("document.querySelector('details').open = true")
        assert asked_addresses(browser) == [page.as_uri()]
        assert browser.get_log("browser") == []
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, paper.removeprefix("rgb(").rstrip(")").split(","))) < 200) == dark


def test_everybody_can_use_a_report(page, tmp_path):
    with chromium(tmp_path) as browser:
        browser.get(page.as_uri())
        assert accessibility_faults(browser) == []
