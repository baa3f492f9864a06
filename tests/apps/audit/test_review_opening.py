"""How a review is opened: nothing that any account of the machine can read opens the page."""

import contextlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.chromium import FLAGS, chromium, end
from support.served_reviews import new_address, serving
from test_pages_in_a_browser import is_drawn, open_page, press, text_of, wait_for
from test_review import ask, exchanged, posted

from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.review_opening import ReviewOpening
from fedannot.apps.runs.interruption import Interrupted
from fedannot.custom.audit.decisions import read_decisions

# Notes what every account can read of all processes, and what it alone can read of its own file.
FAKE_BROWSER = """#!{python}
import json, sys
from pathlib import Path
from urllib.parse import unquote, urlsplit
seen = []
for entry in Path("/proc").glob("[0-9]*/cmdline"):
    try:
        seen += entry.read_bytes().decode(errors="replace").split("\\0")
    except OSError:
        pass
file = Path(unquote(urlsplit(sys.argv[1]).path))
page = file.read_text() if file.is_file() else ""
modes = [(file.stat().st_mode & 0o7777), (file.parent.stat().st_mode & 0o7777)] if page else []
note = Path("{note}")
note.with_suffix(".new").write_text(json.dumps(dict(arguments=sys.argv[1:], seen=seen, page=page, modes=modes)))
note.with_suffix(".new").rename(note)
"""
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/#([\w-]+)")


class Served:
    """A review that another process serves."""

    def __init__(self, found, port, token=""):
        self.server_port, self.token, self.reader = port, token, CaseReader(found)
        self.cases = [case for case in found.audit.cases if case.findings]


@contextlib.contextmanager
def reviewing(found, *options, **environment):
    """The command with an open umask, and what it has said of the address and the browser; it ends with the block."""
    arguments = ["review", str(found.folder), "--no-files", "--reviewer", "Dr Ada", *options]
    program = f"import os; os.umask(0); from fedannot.apps.commands.audit import audit_app; audit_app({arguments!r})"
    started = subprocess.Popen(
        [sys.executable, "-u", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    try:
        yield started, [started.stdout.readline() for _ in range(3)]
    finally:
        started.kill()
        started.communicate(timeout=30)


def openings(found):
    return sorted(found.folder.glob("open-review-*"))


@pytest.fixture
def fake(tmp_path):
    """A browser that opens nothing, and the file of its notes."""
    program, note = tmp_path / "browser.py", tmp_path / "note.json"
    program.write_text(FAKE_BROWSER.format(python=sys.executable, note=note))
    program.chmod(0o755)
    return program, note


def test_no_argument_list_holds_what_opens_the_page_and_the_file_is_private(audit_of, fake):
    result, (browser, note) = audit_of("images"), fake
    with reviewing(result, BROWSER=f"{browser} %s") as (command, lines):
        wait_for(note.is_file)
        noted = json.loads(note.read_text())
        (port, printed), (in_file_port, in_file) = (
            ADDRESS.search(lines[0]).groups(),
            ADDRESS.search(noted["page"]).groups(),
        )
        assert port == in_file_port
        assert printed != in_file
        review = Served(result, int(port))
        # Neither the codes, nor anything else in there that a server would take for a token or a code.
        words = {word for argument in noted["seen"] for word in (argument, *re.split(r"[^\w-]+", argument)) if word}
        assert not words & {printed, in_file}
        assert [item for item in noted["seen"] if f":{port}" in item] == []
        # Programs of other tests are given lines of code, which no header can have.
        likely = [word for word in words if 20 <= len(word) < 400 and word.isprintable()]
        assert [word for word in likely if exchanged(review, word)[1] is not None] == []
        assert [word for word in likely if word.isascii() and ask(review, "/page", X_Review_Token=word)[0] == 200] == []

        assert noted["modes"] == [0o600, 0o700]
        assert openings(result)
        status, review.token = exchanged(review, in_file)
        assert status == 200
        assert ask(review, "/page")[0] == 200
        assert openings(result) == []
        assert exchanged(review, in_file) == (403, None)
        assert ask(review, "/page")[0] == 403
        command.send_signal(signal.SIGINT)
        output, errors = command.communicate(timeout=30)
    assert command.returncode == 130
    assert "used a second time" in errors
    assert ADDRESS.search(output)


def stopped_before_the_file_is_used(found):
    with serving(found) as server, ReviewOpening(server, print, print) as opening:
        assert opening.open_browser()
        assert openings(found)
        raise Interrupted(signal.SIGTERM)


def test_a_file_that_no_browser_has_used_goes_with_the_command(audit_of, monkeypatch):
    monkeypatch.setenv("BROWSER", "any")
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    result = audit_of("classes")
    with pytest.raises(Interrupted):
        stopped_before_the_file_is_used(result)
    assert openings(result) == []


def test_when_a_printed_address_was_used_the_next_one_is_printed(audit_of):
    said, warned = [], []
    with serving(audit_of("classes")) as server, ReviewOpening(server, said.append, warned.append) as opening:
        _, code = ADDRESS.search(opening.new_address()).groups()
        status, token = exchanged(server, code)
        assert status == 200
        (line,) = said
        _, following = ADDRESS.search(line).groups()
        assert following != code
        assert exchanged(server, following)[0] == 200
        # The first page stays open, until its address is used again.
        assert ask(server, "/page", X_Review_Token=token)[0] == 200
        assert warned == []
        exchanged(server, code)
        assert ask(server, "/page", X_Review_Token=token)[0] == 403
        assert len(warned) == 1
        assert len(said) == 3


def test_without_a_display_no_browser_is_tried(audit_of, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("webbrowser.open", lambda _: pytest.fail("opened a browser"))
    monkeypatch.setattr(sys, "platform", "linux")
    result = audit_of("classes")
    with serving(result) as server, ReviewOpening(server, print, print) as opening:
        assert opening.open_browser() is False
    assert openings(result) == []


def test_where_a_disk_keeps_nobody_out_the_file_lies_elsewhere(audit_of, monkeypatch, tmp_path):
    opened, result = [], audit_of("classes")
    monkeypatch.setenv("BROWSER", "any")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(
        "fedannot.apps.audit.review_opening.is_open_to_others", lambda folder: folder.parent == result.folder
    )
    with serving(result) as server, ReviewOpening(server, print, print) as opening:
        assert opening.open_browser()
        wait_for(lambda: opened)
        assert opened[0].startswith(tmp_path.as_uri())
        assert openings(result) == []
    assert list(tmp_path.glob("open-review-*")) == []


def test_a_browser_opens_the_file_and_no_process_of_it_shows_the_code(audit_of, tmp_path):
    """As a reader starts it: the browser gets the file as its argument, and starts many processes of its own."""
    if shutil.which("chromium") is None:
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")
    result, profile = audit_of("images"), tmp_path / "profile"
    command_line = " ".join(["chromium", *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0", "%s"])
    with reviewing(result, BROWSER=command_line) as (_, lines):
        (folder,) = openings(result)
        with contextlib.suppress(FileNotFoundError):
            in_file = ADDRESS.search((folder / "review.html").read_text())[2]
        with attached(profile) as browser:
            wait_for(lambda: is_drawn(browser))
            address = browser.current_url
            arguments = [item for file in Path("/proc").glob("[0-9]*/cmdline") for item in arguments_of(file)]
            assert any(str(profile) in argument for argument in arguments)
            port, printed = ADDRESS.search(lines[0]).groups()
            secrets = [printed, in_file, browser.execute_script("return sessionStorage.getItem('fedannot review')")]
            assert all(len(item) >= 43 for item in secrets)
            assert [
                argument
                for argument in arguments
                if any(secret in argument for secret in secrets) or f":{port}" in argument
            ] == []
            assert address == f"http://127.0.0.1:{port}/"
            assert openings(result) == []


def arguments_of(file):
    with contextlib.suppress(OSError):
        return file.read_bytes().decode(errors="replace").split("\0")
    return []


@contextlib.contextmanager
def attached(profile):
    """A driver of a browser that was started by somebody else."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    port = profile / "DevToolsActivePort"
    wait_for(port.is_file, 60)
    options = webdriver.ChromeOptions()
    options.debugger_address = f"127.0.0.1:{port.read_text().splitlines()[0]}"
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield browser
    finally:
        with contextlib.suppress(Exception):
            browser.execute_cdp_cmd("Browser.close", {})
        end(browser)


def test_the_page_outlives_reloading_and_its_address_opens_nothing_any_more(audit_of, tmp_path):
    result = audit_of("images")
    with chromium(tmp_path / "profile") as browser, serving(result) as server:
        address = new_address(server)
        open_page(browser, address)
        at_home = f"http://127.0.0.1:{server.server_port}/"
        assert browser.current_url == at_home
        browser.refresh()
        wait_for(lambda: is_drawn(browser))
        press(browser, "k")
        wait_for(lambda: len(read_decisions(result.folder, result.site).decisions) == 1)
        assert browser.current_url == at_home
        assert browser.get_log("browser") == []
        assert browser.execute_script("return document.cookie") == ""

        # The same address in another tab is refused, and ends what it had opened.
        first = browser.current_window_handle
        browser.switch_to.new_window("tab")
        browser.get(address)
        wait_for(lambda: "works once" in text_of(browser, "problem"))
        assert "patients" not in browser.page_source
        browser.switch_to.window(first)
        press(browser, "a")
        wait_for(lambda: "printed last" in text_of(browser, "status"))
        assert len(read_decisions(result.folder, result.site).decisions) == 1
        # A new one opens the page in the same tab.
        browser.execute_script("location.assign(arguments[0])", new_address(server))
        wait_for(lambda: is_drawn(browser) and "1 of" in text_of(browser, "progress"))
        assert browser.current_url == at_home


def test_a_page_of_another_port_gets_nothing_of_the_session(audit_of, tmp_path):
    """Another account's server on the same host: cookies would be sent to it."""
    with (
        chromium(tmp_path / "profile") as browser,
        serving(audit_of("images")) as server,
        serving(audit_of("classes")) as other,
    ):
        open_page(browser, new_address(server))
        browser.get(f"http://127.0.0.1:{other.server_port}/")
        wait_for(lambda: "printed last" in text_of(browser, "problem"))
        assert browser.execute_script("return sessionStorage.length + document.cookie.length") == 0


def test_decisions_are_private_whatever_the_umask_is(audit_of):
    result, before = audit_of("images"), os.umask(0)
    try:
        (result.folder / "decisions.json").write_text('{"site": "site-1"}')
        with serving(result) as server:
            assert ask(server, "/decisions", "POST", posted(server))[0] == 200
    finally:
        os.umask(before)
    for name in ("decisions.json", ".decisions.lock"):
        assert stat.S_IMODE((result.folder / name).stat().st_mode) == 0o600
