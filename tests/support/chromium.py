"""Chromium without a window, for tests of pages: what it logs, and what it asks other places for."""

import contextlib
import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

# Its driver waits ten minutes for a browser that does not answer.
SECONDS_TO_ANSWER = 90
SECONDS_TO_END = 20
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
AXE_VARIABLE = "FEDANNOT_AXE"


@contextmanager
def chromium(profile: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Any]:
    """Start Chromium with a profile of its own; the test is skipped where there is none."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(profile)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service, before = Service(driver), socket.getdefaulttimeout()
    socket.setdefaulttimeout(SECONDS_TO_ANSWER)
    try:
        browser = webdriver.Chrome(options=options, service=service)
    finally:
        socket.setdefaulttimeout(before)
    try:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        # A page that is still scrolling would not be where it is clicked.
        preferred = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in preferred.items()]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        yield browser
    finally:
        end(browser)


def end(browser: Any) -> None:
    """End a browser and its driver, by force where it does not end by itself."""

    def quit_quietly() -> None:
        with contextlib.suppress(Exception):
            browser.quit()

    driver = psutil.Process(browser.service.process.pid)
    processes = [driver, *driver.children(recursive=True)]
    ending = threading.Thread(target=quit_quietly, daemon=True)
    ending.start()
    ending.join(SECONDS_TO_END)
    for process in processes if ending.is_alive() else ():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def asked_addresses(browser: Any) -> list[str]:
    """All that pages asked for since the last time, but for what they hold and what Chromium itself consists of."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    addresses = [
        message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"
    ]
    return [address for address in addresses if not address.startswith(("data:", "blob:", "chrome"))]


def accessibility_faults(browser: Any) -> list[str]:
    """What axe-core finds wrong with a page; the test is skipped where its program is not named."""
    file = os.environ.get(AXE_VARIABLE)
    if not file:
        pytest.skip(f"needs axe-core: set {AXE_VARIABLE} to its axe.min.js")
    browser.execute_script(Path(file).read_text(encoding="utf-8"))
    browser.set_script_timeout(60)
    result = browser.execute_async_script("axe.run().then((result) => arguments[0](result.violations))")
    return [f"{item['id']}: {item['nodes'][0]['html']}" for item in result]
