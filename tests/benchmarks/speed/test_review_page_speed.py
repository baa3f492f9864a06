"""How long the page of a review takes in Chromium: one case of 4,000 × 4,000 pixels, and a list of 2,000 cases."""

import os
import statistics
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest
from measuring import Measurement
from PIL import Image
from support.audits import audited_images
from support.chromium import chromium
from support.served_reviews import new_address, serving

from fedannot.apps.audit.found import FoundAudit

pytestmark = pytest.mark.benchmark

REPEATS = 5
SIDE, SPACING, CASES = 4000, 80, 2000
OPEN_GOAL, KEY_GOAL = "< 3 s", "< 200 ms"
# What the page does until it is at rest: the time from first to last, and the longest time without a frame.
WATCH = """
const watch = window.watched = { start: performance.now(), longest: 0, last: performance.now(), isOn: true };
const frame = (now) => {
  watch.longest = Math.max(watch.longest, performance.now() - watch.last);
  watch.last = performance.now();
  if (watch.isOn) requestAnimationFrame(frame);
};
requestAnimationFrame(frame);
"""
# Resolves once the case is to be seen with all that is drawn on it, and two frames have passed.
AT_REST = """
const done = arguments[0], began = performance.now();
const rest = (left) => requestAnimationFrame(() => {
  const isBusy = ["case", "views"].some((name) => document.getElementById(name).ariaBusy === "true");
  if (isBusy) rest(2); else if (left) rest(left - 1); else {
    window.watched.isOn = false;
    done([performance.now() - window.watched.start, window.watched.longest]);
  }
});
rest(2);
"""
KEY = "document.activeElement.blur(); document.body.dispatchEvent(new KeyboardEvent('keydown', {bubbles: true, "


def write_large(found, count, kind="8-bit"):
    """Give the first cases images of 4,000² pixels with 2,500 round cells, which the annotations hold."""
    row, column = np.indices((SPACING, SPACING)) - SPACING / 2 + 0.5
    cell = np.hypot(row, column) < SPACING / 3
    mask = np.tile(cell, (SIDE // SPACING, SIDE // SPACING))
    noise = np.random.default_rng(0).integers(0, 90, (SIDE, SIDE), dtype=np.uint8)
    image = noise + 120 * mask.astype(np.uint8)
    if kind == "16-bit":
        image = image.astype(np.uint16) * 200
    elif kind == "RGB":
        image = np.stack([image, image // 2, image // 3], axis=-1)
        description = Path(found.audit.data, "data.yaml")
        description.write_text(description.read_text().replace("channels: 1", "channels: 3"))
    for case in found.audit.cases[:count]:
        Image.fromarray(image).save(f"{found.audit.data}/{case.image}", compress_level=1)
        Image.fromarray(255 * mask.astype(np.uint8)).save(f"{found.audit.data}/{case.label}", compress_level=1)


def with_many_cases(found, count):
    """The audit's cases again and again, with findings of their own."""
    own = found.audit.cases
    cases = tuple(
        own[number % len(own)].model_copy(
            update={
                "findings": tuple(
                    finding.model_copy(update={"id": f"{finding.id} {number}"})
                    for finding in own[number % len(own)].findings
                ),
                "arrays": "",
            }
        )
        for number in range(count)
    )
    return FoundAudit(found.folder, found.audit.model_copy(update={"cases": cases, "num_cases": count}))


class Page:
    """A page in Chromium: what an action takes of processor and clock, and what it holds."""

    def __init__(self, browser, table, what):
        self.browser, self.table, self.what = browser, table, what
        # Else the times of others on the same processor would be in those of its tasks.
        browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        browser.set_script_timeout(120)

    def metrics(self):
        listed = self.browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return {one["name"]: one["value"] for one in listed}

    def open(self, address):
        """Open the page; until its first case is to be seen."""
        started = time.perf_counter()
        self.browser.get(address)
        while not self.browser.execute_script(
            "const one = document.getElementById('case');"
            "return one && one.ariaBusy === 'false' && document.getElementById('view-given').width > 200"
        ):
            time.sleep(0.02)
        seconds, metrics = time.perf_counter() - started, self.metrics()
        return seconds, metrics["TaskDuration"], metrics["ScriptDuration"]

    def time(self, action):
        """Seconds of the processor, of the clock, and the longest without a frame."""
        self.browser.execute_script(WATCH)
        before = self.metrics()["TaskDuration"]
        action()
        wall, longest = self.browser.execute_async_script(AT_REST)
        return self.metrics()["TaskDuration"] - before, wall / 1000, longest / 1000

    def key(self, key, options=""):
        """A key, outside of fields."""
        self.browser.execute_script(f"{KEY}key: arguments[0]{options}}}))", key)

    def decide(self, key):
        """A key that stores or undoes a decision; until the page says so."""
        self.browser.execute_script("window.said = document.getElementById('status').textContent")
        self.key(key)
        self.browser.execute_async_script(
            "const done = arguments[0], wait = () => requestAnimationFrame(() =>"
            "document.getElementById('status').textContent === window.said ? wait() : done()); wait()"
        )

    def drag(self, number, steps=20, far=120):
        """A stroke of the pointer across the image, below the one before."""
        x, y = self.browser.execute_script(
            "const box = document.getElementById('view-given').getBoundingClientRect();"
            "return [box.left + box.width / 3, box.top + box.height / 3 + 30 * arguments[0]]",
            number,
        )
        for step in range(steps + 2):
            kind = "mousePressed" if step == 0 else "mouseReleased" if step == steps + 1 else "mouseMoved"
            at = {"x": x + far * min(step, steps) / steps, "y": y, "button": "left", "buttons": 1, "clickCount": 1}
            self.browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, **at})

    def report(self, name, times, goal=KEY_GOAL):
        """A line of the table: the median of what the processor took, and the ranges."""
        cpu, wall, longest = zip(*times, strict=True)
        note = "; ".join(
            f"{word} {1000 * statistics.median(own):.0f} ms ({1000 * min(own):.0f} to {1000 * max(own):.0f})"
            for word, own in (("processor", cpu), ("clock", wall), ("longest frame", longest))
        )
        self.table.add(
            Measurement(f"{self.what}: {name}", statistics.median(cpu), goal=goal, note=f"{note}; load {load()}")
        )

    def report_memory(self):
        """What the page holds: objects of its program, and its process with everything."""
        self.browser.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        heap = self.metrics()["JSHeapUsedSize"] / 2**20
        driver = psutil.Process(self.browser.service.process.pid)
        pages = [own for own in driver.children(recursive=True) if "--type=renderer" in own.cmdline()]
        held = max(own.memory_info().rss for own in pages) / 2**20
        self.table.add(Measurement(f"{self.what}: memory", note=f"{heap:.0f} MiB of objects, {held:.0f} MiB in all"))


def load():
    """The load of the machine's processors, which the clock's times depend on."""
    return f"{os.getloadavg()[0]:.1f} of {os.cpu_count()}"


@contextmanager
def opened(found, tmp_path, table, what):
    """The audit's page, opened five times."""
    with chromium(tmp_path / "profile") as browser, serving(found, is_prepared=False) as server:
        page = Page(browser, table, what)
        times = [page.open(new_address(server)) for _ in range(REPEATS)]
        wall, cpu, script = zip(*times, strict=True)
        note = f"clock {statistics.median(wall):.2f} s ({min(wall):.2f} to {max(wall):.2f})"
        note += f", script {statistics.median(script):.2f} s; load {load()}"
        table.add(Measurement(f"{what}: opening", statistics.median(cpu), goal=OPEN_GOAL, note=note))
        yield page


@pytest.mark.parametrize("kind", ["8-bit", "16-bit", "RGB"])
def test_the_first_opening_of_a_new_browser_and_server(speed_table, tmp_path, kind):
    found = audited_images(tmp_path / "audit", 2)
    write_large(found, 2, kind)
    times, zooms = [], []
    for number in range(REPEATS):
        with chromium(tmp_path / f"profile {number}") as browser, serving(found, is_prepared=False) as server:
            page, before = Page(browser, speed_table, f"4,000 × 4,000 pixels, {kind}"), time.process_time()
            wall, cpu, _ = page.open(new_address(server))
            times.append((cpu, wall, time.process_time() - before))
            browser.execute_script("document.getElementById('view-given').scrollIntoView()")
            time.sleep(3)
            page.time(lambda: page.key("0"))  # noqa: B023
            zooms.append(page.time(lambda: page.key("+")))  # noqa: B023
    cpu, wall, server_cpu = map(statistics.median, zip(*times, strict=True))
    note = f"clock {wall:.2f} s ({min(own[1] for own in times):.2f} to {max(own[1] for own in times):.2f}), "
    note += f"processor of the page {cpu:.2f} s, of the server {server_cpu:.2f} s; load {load()}"
    speed_table.add(Measurement(f"{page.what}: first opening", cpu + server_cpu, goal=OPEN_GOAL, note=note))
    page.report("first zoom in", zooms)


def test_a_case_of_many_pixels(speed_table, tmp_path):
    found = audited_images(tmp_path / "audit", 2)
    write_large(found, 2)
    with opened(found, tmp_path, speed_table, "4,000 × 4,000 pixels") as page:
        page.browser.execute_script("document.getElementById('view-given').scrollIntoView()")
        page.key("0")
        # The next case is read while the first one is looked at.
        time.sleep(5)
        for name, keys in {"zoom in": "+", "zoom out": "-", "filled": "f", "next case": "np"}.items():
            page.report(name, [page.time(lambda key=key: page.key(key)) for key in (keys * REPEATS)[:REPEATS]])
        page.browser.execute_script("document.getElementById('fill').checked = false")
        page.key("0")
        page.report("drawing begins", [page.time(lambda: page.key("e"))])
        while page.browser.execute_script("return document.getElementById('mend-tools').hidden"):
            time.sleep(0.05)
        page.key("b")
        for where, zoom in {"of the whole image": "0", "zoomed in": "+++++"}.items():
            for key in zoom:
                page.key(key)
            page.report(f"a stroke of 20 moves {where}", [page.time(lambda n=n: page.drag(n)) for n in range(REPEATS)])
            undo = [page.time(lambda: page.key("z", ", ctrlKey: true")) for _ in range(REPEATS)]
            page.report(f"undo of a stroke {where}", undo)
        page.key("y", ", ctrlKey: true")
        assert page.browser.execute_script("return !document.getElementById('mend-undo').disabled")
        page.report_memory()


def test_a_list_of_many_cases(speed_table, tmp_path):
    found = with_many_cases(audited_images(tmp_path / "audit", 20), CASES)
    with opened(found, tmp_path, speed_table, "2,000 cases") as page:
        page.report("next case", [page.time(lambda: page.key("n")) for _ in range(REPEATS)])
        for name, key in {"decision": "k", "undo of a decision": "u"}.items():
            page.report(name, [page.time(lambda key=key: page.decide(key)) for _ in range(REPEATS)])

        def search(text):
            page.browser.execute_script(
                "const field = document.getElementById('search'); field.value = arguments[0];"
                "field.dispatchEvent(new Event('input', {bubbles: true}))",
                text,
            )
            time.sleep(0.3)

        page.report("search", [page.time(lambda text=text: search(text)) for text in ("1", "", "2", "", "3")])
        page.report_memory()
