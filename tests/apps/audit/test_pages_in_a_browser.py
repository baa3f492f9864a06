"""The pages as a reader uses them, in Chromium: a review by keys alone, what survives, what is asked for."""

import contextlib
import functools
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from urllib.parse import urlsplit

import psutil
import pytest
from support import chromium as browsers
from support.audits import audited_images, conclusion
from support.chromium import accessibility_faults, asked_addresses, chromium
from support.served_reviews import new_address, serving

from fedannot.apps.audit import site_page
from fedannot.apps.audit.applying import apply_decisions
from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.case_pictures import content_and_crop
from fedannot.apps.audit.found import FoundAudit
from fedannot.apps.audit.site_page import write_site_page
from fedannot.custom.audit.case_list import question
from fedannot.custom.audit.decisions import Decisions, read_decisions
from fedannot.custom.audit.findings import ReferenceModelKind
from fedannot.custom.data.json_record import read_record

CASES = 20
KEYS = "aakl"


@pytest.fixture(scope="module")
def large_audit(tmp_path_factory):
    """As many cases as are reviewed."""
    conclusions = (conclusion("confirmed"), conclusion("not_significant"))
    return audited_images(tmp_path_factory.mktemp("large"), CASES, conclusions=conclusions)


@contextlib.contextmanager
def reviewing(found):
    """The command that serves the page, and its address; killed at the end unless it has ended."""
    arguments = ["review", str(found.folder), "--no-open", "--reviewer", "Dr Ada"]
    program = f"from fedannot.apps.commands.audit import audit_app; audit_app({arguments!r})"
    started = subprocess.Popen([sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        yield started, started.stdout.readline().split(": ", 1)[1].strip()
    finally:
        started.kill()
        started.wait()


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the page did not get there in time"
        time.sleep(0.03)


def text_of(browser, name):
    return browser.execute_script("return document.getElementById(arguments[0]).textContent", name)


def is_drawn(browser):
    """Whether the image of the case that is named is on the canvas, which learns of when it is; not in the frame."""
    return browser.execute_script(
        "const canvas = document.getElementById('view-given');"
        "if (!canvas) return false;"
        "const title = document.getElementById('case-title').textContent;"
        "return canvas.width > 100 && title && canvas.getAttribute('aria-label').startsWith(title + ' as given')"
    )


def colours_on(browser, canvas):
    """How many pixels of a canvas have which colour."""
    pixels = browser.execute_script(
        "const canvas = document.getElementById(arguments[0]);"
        "return [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]",
        canvas,
    )
    return Counter(zip(pixels[::4], pixels[1::4], pixels[2::4], strict=True))


def press(browser, key):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).send_keys(key).perform()


def open_page(browser, address):
    browser.get(address)
    wait_for(lambda: is_drawn(browser))


def test_a_review_of_twenty_cases_by_keys_and_what_outlives_a_killed_server(audit_copy, tmp_path):
    result = audit_copy
    with chromium(tmp_path / "profile") as browser:
        with reviewing(result) as (server, address):
            open_page(browser, address)
            decided = [press_and_wait(browser, result, KEYS[number % len(KEYS)]) for number in range(CASES)]
            os.kill(server.pid, signal.SIGKILL)
        stored = read_decisions(result.folder, result.site)
        assert [decision.finding for decision in stored.decisions] == decided
        assert len(set(decided)) == CASES
        words = {"a": "accept", "k": "keep", "l": "later"}
        assert [decision.choice for decision in stored.decisions] == [words[KEYS[n % len(KEYS)]] for n in range(CASES)]
        assert {decision.reviewer for decision in stored.decisions} == {"Dr Ada"}
        assert browser.get_log("browser") == []
        asked = [urlsplit(item) for item in asked_addresses(browser)]
        assert {item.netloc for item in asked} == {urlsplit(address).netloc}
        # The small pictures of others wait until the case is to be seen.
        kinds = [item.path.split("/")[1] for item in asked]
        assert kinds.index("crop") > max(kinds.index("pixels"), kinds.index("mask"))

        press(browser, "p")
        press(browser, "k")
        wait_for(lambda: "the command that serves this page has ended" in text_of(browser, "status"))
        browser.get_log("browser")
        with serving(result) as server:
            open_page(browser, new_address(server))
            assert text_of(browser, "progress") == "15 of 20 findings decided, 5 for later"
            assert "Accepted by Dr Ada" in text_of(browser, "findings")
            assert browser.get_log("browser") == []


def press_and_wait(browser, found, key):
    """Decide about the shown finding, and return its id; the next one is to be seen afterwards."""
    before, progress = len(read_decisions(found.folder, found.site).decisions), text_of(browser, "progress")
    press(browser, key)
    wait_for(lambda: len(read_decisions(found.folder, found.site).decisions) == before + 1)
    # Until the page has the answer, too, it takes no other key.
    wait_for(lambda: text_of(browser, "progress") != progress)
    wait_for(lambda: is_drawn(browser) and "stored" in text_of(browser, "status"))
    wait_for(lambda: browser.execute_script("return !document.getElementById('accept').disabled"))
    time.sleep(0.1)
    return read_decisions(found.folder, found.site).decisions[-1].finding


@pytest.fixture
def audit_copy(large_audit):
    """The large audit without decisions."""
    yield large_audit
    (large_audit.folder / "decisions.json").unlink(missing_ok=True)


def test_image_and_contours_are_on_the_canvas_and_can_be_hidden(large_audit, tmp_path):
    given, suggested = (255, 176, 0), (93, 242, 160)
    page = write_site_page(large_audit, tmp_path / "page.html", check_files=False)
    with chromium(tmp_path / "profile") as browser:
        open_page(browser, page.as_uri())
        shown = colours_on(browser, "view-given")
        assert len(shown) > 100
        assert shown[given] > 50
        assert colours_on(browser, "view-suggested")[suggested] > 50
        press(browser, "h")
        wait_for(lambda: colours_on(browser, "view-given")[given] == 0)
        assert len(colours_on(browser, "view-given")) > 50
        press(browser, "h")
        wait_for(lambda: colours_on(browser, "view-given")[given] == shown[given])


def test_a_comment_is_stored_with_the_decision(audit_copy, tmp_path):
    from selenium.webdriver.common.keys import Keys

    with chromium(tmp_path / "profile") as browser, serving(audit_copy) as server:
        open_page(browser, new_address(server))
        press(browser, "c")
        press(browser, "Ask Dr Bo: rim?" + Keys.ESCAPE)
        assert read_decisions(audit_copy.folder, audit_copy.site).decisions == ()
        press(browser, "k")
        wait_for(lambda: read_decisions(audit_copy.folder, audit_copy.site).decisions)
        (decision,) = read_decisions(audit_copy.folder, audit_copy.site).decisions
        assert (decision.choice, decision.reason) == ("keep", "Ask Dr Bo: rim?")


def test_without_a_server_decisions_are_kept_and_downloaded(audit_copy, tmp_path):
    from selenium.webdriver.common.by import By

    result, profile = audit_copy, tmp_path / "profile"
    page = write_site_page(result, tmp_path / "page.html", check_files=False)
    with chromium(profile) as browser:
        open_page(browser, page.as_uri())
        press(browser, "a")
        wait_for(lambda: "Enter your name first" in text_of(browser, "status"))
        browser.find_element(By.ID, "reviewer").send_keys("Dr Bo\ue00c")
        press(browser, "a")
        wait_for(lambda: text_of(browser, "progress").startswith("1 of"))
        press(browser, "k")
        wait_for(lambda: text_of(browser, "progress").startswith("2 of"))
        open_page(browser, page.as_uri())
        assert text_of(browser, "progress") == "2 of 20 findings decided"
        browser.find_element(By.ID, "download").click()
        file = profile / "decisions-site-1.json"
        wait_for(file.is_file)
        assert browser.get_log("browser") == []
        assert set(asked_addresses(browser)) == {page.as_uri()}
    decisions = read_record(file, Decisions)
    first, second = (result.audit.cases[number].findings[0].id for number in range(2))
    assert {decision.finding: (decision.choice, decision.reviewer) for decision in decisions.decisions} == {
        first: ("accept", "Dr Bo"),
        second: ("keep", "Dr Bo"),
    }
    applied = apply_decisions(CaseReader(result), decisions, tmp_path / "new")
    assert [case.review.origin for case in applied.record.cases if case.review is not None] == ["accepted", "kept"]


def test_hostile_names_are_shown_and_do_nothing(large_audit, tmp_path):
    attack = "<img src=x onerror=\"document.title='broken'\"></script><script>document.title='broken'</script>"
    cases = tuple(
        case.model_copy(
            update={
                "annotator": attack,
                "findings": tuple(
                    finding.model_copy(update={"text": attack, "classes": (attack,), "kind": attack})
                    for finding in case.findings
                ),
            }
        )
        for case in large_audit.audit.cases
    )
    audit = large_audit.audit.model_copy(
        update={"cases": cases, "predicted_by": ReferenceModelKind(folds=1, text=attack)}
    )
    page = write_site_page(FoundAudit(large_audit.folder, audit), tmp_path / "page.html", check_files=False)
    with chromium(tmp_path / "profile") as browser:
        open_page(browser, page.as_uri())
        assert attack in text_of(browser, "findings")
        assert browser.title == "Annotation audit: site-1"
        assert browser.execute_script("return document.querySelectorAll('img[src=x]').length") == 0
        assert browser.get_log("browser") == []


def test_filters_leave_the_cases_that_they_name(made_audits, tmp_path):
    from selenium.webdriver.support.select import Select

    result = made_audits["slices"]
    page = write_site_page(result, tmp_path / "page.html", check_files=False)
    with chromium(tmp_path / "profile") as browser:
        open_page(browser, page.as_uri())
        size = Select(browser.find_element("id", "filter-size"))
        texts = [option.text for option in size.options]
        size.select_by_value("large")
        limit = float(re.search(r"over ([\d.]+)", texts[-1])[1])
        shown = browser.execute_script("return document.querySelectorAll('#list li').length")
        large = sum(any(finding.size > limit for finding in case.findings) for case in result.audit.cases)
        assert 0 < shown == large
        Select(browser.find_element("id", "filter-state")).select_by_value("accept")
        wait_for(lambda: text_of(browser, "case-title") == "No case has such a finding.")


def test_slices_are_moved_by_keys_and_a_point_of_the_plot_leads_to_its_case(made_audits, tmp_path):
    page = write_site_page(made_audits["slices"], tmp_path / "page.html", check_files=False)
    with chromium(tmp_path / "profile") as browser:
        open_page(browser, page.as_uri())
        before = int(text_of(browser, "slice-number").split()[0])
        press(browser, "[")
        wait_for(lambda: text_of(browser, "slice-number").startswith(f"{before - 1} "))
        title = text_of(browser, "case-title")
        browser.execute_script(
            "document.querySelectorAll('#plot .point')[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        )
        wait_for(lambda: text_of(browser, "case-title") != title)


@pytest.fixture(scope="module", params=[(1280, False), (1280, True), (390, False)], ids=["wide", "dark", "narrow"])
def read_only_browser(request, tmp_path_factory):
    """A browser for pages that are only looked at, and its width."""
    width, dark = request.param
    with chromium(tmp_path_factory.mktemp("browser") / "profile", width=width, dark=dark) as browser:
        yield browser, width


@pytest.mark.parametrize("kind", ["images", "slices", "classes"])
def test_pages_can_be_used_by_everybody(made_audits, tmp_path, kind, read_only_browser):
    browser, width = read_only_browser
    page = write_site_page(made_audits[kind], tmp_path / "page.html")
    open_page(browser, page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert accessibility_faults(browser) == []


def test_two_thousand_cases_do_not_stall(large_audit, tmp_path, monkeypatch):
    """The page is there within seconds, and a key acts at once; bounds are wide, as machines differ."""
    # A hundred cases are the same image, which is read and drawn once.
    drawn = functools.cache(lambda reader, image: content_and_crop(reader, by_image[image]))
    monkeypatch.setattr(site_page, "content_and_crop", lambda reader, case: drawn(reader, case.image))
    cases = tuple(
        large_audit.audit.cases[number % CASES].model_copy(
            update={
                "findings": tuple(
                    finding.model_copy(update={"id": f"{finding.id} {number}"})
                    for finding in large_audit.audit.cases[number % CASES].findings
                ),
                "arrays": "",
            }
        )
        for number in range(2000)
    )
    by_image = {case.image: case for case in cases}
    audit = large_audit.audit.model_copy(update={"cases": cases, "num_cases": len(cases)})
    page = write_site_page(FoundAudit(large_audit.folder, audit), tmp_path / "page.html", check_files=False)
    with chromium(tmp_path / "profile") as browser:
        start = time.monotonic()
        open_page(browser, page.as_uri())
        opened = time.monotonic() - start
        assert browser.execute_script("return document.querySelectorAll('#list li').length") == 2000
        # Rows are made where they are looked at, or printed; only what is in sight has been decoded.
        assert browser.execute_script("return document.querySelectorAll('#list .row').length") < 100
        assert browser.execute_script("return document.querySelectorAll('#list img').length") < 60
        took = browser.execute_script(
            "const start = performance.now();"
            "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'n', bubbles: true}));"
            "document.body.offsetHeight; return performance.now() - start"
        )
        assert text_of(browser, "case-title") == cases[1].image.split("/")[-1]
        assert browser.get_log("browser") == []
    print(f"2000 cases: opened in {opened:.1f} s, a key took {took:.0f} ms, {page.stat().st_size / 1e6:.1f} MB")
    assert opened < 60
    assert took < 2000


@pytest.fixture
def half_suspected(audit_copy):
    """Six cases, of which the last three have no finding; two of each patient, by two annotators in turn.

    The label of the last was made of the annotations of both.
    """
    cases = tuple(
        case.model_copy(
            update={"unit": f"patient {number // 2}", "annotator": f"reader-{number % 2}"}
            | ({"findings": ()} if number > 2 else {})
            | ({"annotator": None, "several_annotators": ("reader-0", "reader-1")} if number == 5 else {})
        )
        for number, case in enumerate(audit_copy.audit.cases[:6])
    )
    return FoundAudit(audit_copy.folder, audit_copy.audit.model_copy(update={"cases": cases, "num_cases": 6}))


def names_in_list(browser):
    return browser.execute_script("return [...document.querySelectorAll('#list .name')].map((one) => one.textContent)")


def test_a_case_without_a_finding_is_seen_and_cases_are_found(half_suspected, tmp_path):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.select import Select

    found = half_suspected
    names = [case.image.split("/")[-1] for case in found.audit.cases]
    with chromium(tmp_path / "profile") as browser, serving(found) as server:
        open_page(browser, new_address(server))
        assert text_of(browser, "count") == "6 cases, 3 with findings, those with findings first"
        for number in range(3):
            press(browser, "k")
            wait_for(lambda: len(read_decisions(found.folder, found.site).decisions) == number + 1)  # noqa: B023
            wait_for(lambda: text_of(browser, "case-title") == names[number + 1] and is_drawn(browser))  # noqa: B023
        assert "Nothing found" in text_of(browser, "findings")
        assert browser.find_element("id", "keep").text.startswith("Seen, nothing wrong")
        assert not browser.find_element("id", "accept").is_displayed()
        press(browser, "k")
        wait_for(lambda: "1 without findings seen" in text_of(browser, "count"))
        assert text_of(browser, "progress") == "3 of 3 findings decided"
        assert accessibility_faults(browser) == []

        press(browser, "/")
        press(browser, "reader-1 nothing")
        # The fourth and the sixth case are by reader-1 and have no finding.
        wait_for(lambda: names_in_list(browser) == [names[3], names[5]])
        press(browser, Keys.ESCAPE)
        browser.find_element("id", "all-cases").click()
        wait_for(lambda: len(names_in_list(browser)) == 6)
        Select(browser.find_element("id", "filter-patient")).select_by_value("patient 1")
        assert names_in_list(browser) == [names[2], names[3]]
        Select(browser.find_element("id", "filter-annotator")).select_by_value("reader-0")
        assert names_in_list(browser) == [names[2]]
        Select(browser.find_element("id", "filter-patient")).select_by_value("")
        assert names_in_list(browser) == [names[0], names[2], names[4], names[5]]
        browser.find_element("id", "all-cases").click()
        Select(browser.find_element("id", "order")).select_by_value("uncertainty")
        by_uncertainty = sorted(found.audit.cases, key=lambda case: -case.uncertainty)
        assert names_in_list(browser) == [case.image.split("/")[-1] for case in by_uncertainty]
        assert browser.get_log("browser") == []
    seen = read_decisions(found.folder, found.site).decisions[3]
    assert (seen.finding, seen.choice) == (question(found.audit.cases[3]).id, "keep")
    # It is reviewed: its annotation counts as a reference, as it was given.
    out = tmp_path / "new"
    applied = apply_decisions(CaseReader(found), read_decisions(found.folder, found.site), out)
    assert [case.image for case in applied.record.cases if case.review.is_reviewed] == [
        case.image for case in found.audit.cases[:4]
    ]


def test_a_browser_that_does_not_answer_is_ended(tmp_path, monkeypatch):
    """Its driver alone would wait ten minutes."""
    monkeypatch.setattr(browsers, "SECONDS_TO_END", 1)
    with chromium(tmp_path / "profile") as browser:
        driver = psutil.Process(browser.service.process.pid)
        processes = [driver, *driver.children(recursive=True)]
        for process in processes[1:]:
            process.suspend()
        began = time.monotonic()
    assert time.monotonic() - began < 10
    _, left = psutil.wait_procs(processes, timeout=5)
    assert [process for process in left if process.status() != psutil.STATUS_ZOMBIE] == []


def test_a_served_case_is_zoomed_measured_and_judged_before_the_prediction_is_shown(made_audits, tmp_path):
    """Of a volume with pixels of 1.5 mm, which the ruler knows."""
    suggested, predicted = (93, 242, 160), (108, 196, 255)
    with chromium(tmp_path / "profile") as browser, serving(made_audits["volumes"]) as server:
        server.blind_first = True
        open_page(browser, new_address(server))
        assert not browser.find_element("id", "findings").is_displayed()
        assert colours_on(browser, "view-given")[predicted] == 0
        press(browser, "a")
        assert text_of(browser, "status") == "First say whether the annotation looks right or wrong."
        browser.find_element("id", "looks-wrong").click()
        wait_for(lambda: colours_on(browser, "view-given")[predicted] > 20)
        assert browser.find_element("id", "findings").is_displayed()
        browser.find_element("id", "view-given").click()
        press(browser, "m")
        before = place_of(browser)
        move_crosshair(browser, "ArrowRight", 4)
        assert place_of(browser) == (before[0], before[1] + 4)
        assert text_of(browser, "readout").endswith("length 6.00\u00a0mm")
        press(browser, "m")
        whole = magnified(browser, "0")
        assert magnified(browser, "+") == pytest.approx(1.5 * whole, rel=0.15)
        # A click in the middle of the image places the crosshair in the middle of the volume.
        press(browser, "0")
        browser.find_element("id", "view-given").click()
        assert all(abs(own - 32) <= 1 for own in place_of(browser))
        assert not browser.find_element("id", "view-second").is_displayed()
        browser.find_element("id", "three").click()
        browser.find_element("css selector", "#findings button").click()
        wait_for(lambda: all(colours_on(browser, f"view-{name}")[suggested] > 5 for name in ("second", "third")))
        # But for what it says of this test's own reading of the canvas.
        assert [entry for entry in browser.get_log("browser") if entry["level"] != "WARNING"] == []


def move_crosshair(browser, key, steps):
    browser.execute_script(
        "for (let step = 0; step < arguments[1]; step += 1) document.getElementById('view-given').dispatchEvent("
        "new KeyboardEvent('keydown', {key: arguments[0], shiftKey: true, bubbles: true}))",
        key,
        steps,
    )


def place_of(browser):
    row, column = re.match(r"row (\d+), column (\d+)", text_of(browser, "readout")).groups()
    return int(row), int(column)


def magnified(browser, key):
    """How many pixels of the page ten columns take after a key: where the crosshair is after ten steps."""
    press(browser, key)
    lines = [column_of_crosshair(browser)]
    move_crosshair(browser, "ArrowRight", 10)
    lines.append(column_of_crosshair(browser))
    move_crosshair(browser, "ArrowLeft", 10)
    return lines[1] - lines[0]


def column_of_crosshair(browser):
    return browser.execute_script(
        "const canvas = document.getElementById('view-given'), wide = canvas.width;"
        "const row = canvas.getContext('2d').getImageData(0, canvas.height - 40, wide, 30).data;"
        "for (let x = 0; x < wide; x += 1) {"
        "  let all = true;"
        "  for (let y = 0; y < 30; y += 1) { const at = 4 * (y * wide + x);"
        "    if (row[at] < 250 || row[at + 1] < 250 || row[at + 2] < 250) all = false; }"
        "  if (all) return x; }"
        "return -1"
    )
