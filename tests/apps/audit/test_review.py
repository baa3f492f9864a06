import contextlib
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.served_reviews import new_token, serving
from typer.testing import CliRunner

from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.found import FoundAudit
from fedannot.apps.audit.review import ReviewServer
from fedannot.apps.audit.review_requests import MAX_REQUEST_BYTES, TOKEN_HEADER
from fedannot.apps.commands.audit import audit_app
from fedannot.apps.wording.findings import finding_in_words
from fedannot.custom.audit.decisions import DECISIONS_FILE, read_decisions

_TOKENS = weakref.WeakKeyDictionary()


def token_of(server):
    """A token of a server, always the same; of one that is known by its address the one that was taken there."""
    if not isinstance(server, ReviewServer):
        return server.token
    if server not in _TOKENS:
        _TOKENS[server] = new_token(server)
    return _TOKENS[server]


def ask(server, path, method="GET", body=None, *, timeout=30.0, **headers):
    """Status, headers and content of an answer; headers that are None are left out."""
    host = f"127.0.0.1:{server.server_port}"
    sent = {"Host": host, TOKEN_HEADER: token_of(server)}
    if method == "POST":
        sent |= {"Origin": f"http://{host}", "Content-Type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=timeout)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    if body is not None and "Content-Length" not in sent:
        sent["Content-Length"] = str(len(body))
    for name, value in sent.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers, content


def posted(server, case=0, **changes):
    values = {"case": case, "finding": server.cases[case].findings[0].id, "choice": "accept", "reason": "too large"}
    values["shown"] = server.reader.shown(server.cases[case])
    return json.dumps(values | changes).encode()


def mask_path(content, case=0, **changes):
    """Where the given annotation of a case is asked for, with other values of the query or None for one left out."""
    values = {"version": content["version"], "layer": 0, "finding": 0, "axis": 2, "plane": 0} | changes
    return f"/mask/{case}?" + "&".join(f"{key}={value}" for key, value in values.items() if value is not None)


def tile_path(content, case=0, **changes):
    """As above, for the first tile of its image."""
    return mask_path(
        content, case, layer=None, finding=None, **{"scale": 1, "row": 0, "column": 0, "channel": 0} | changes
    ).replace("/mask/", "/pixels/")


@pytest.fixture
def server(audit_of):
    with serving(audit_of("images")) as running:
        yield running


def stored(server):
    return read_decisions(server.reader.folder, server.reader.audit.site).decisions


def test_a_decision_is_stored_with_reviewer_time_reason_and_what_was_shown(server):
    status, _, content = ask(server, "/decisions", "POST", posted(server))
    assert status == 200
    (decision,) = stored(server)
    assert (decision.choice, decision.reviewer, decision.reason) == ("accept", "Dr Ada", "too large")
    assert decision.shown == server.reader.shown(server.cases[0])
    assert decision.time.endswith("+00:00")
    assert json.loads(content)["decision"]["finding"] == decision.finding


def test_the_page_comes_with_the_token_alone_and_does_not_hold_it(server):
    status, headers, content = ask(server, "/page")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert content.startswith(b"<!doctype html>")
    assert b"lesion" in content
    assert token_of(server).encode() not in content


def exchanged(server, code, **headers):
    status, _, content = ask(
        server, "/session", "POST", json.dumps({"code": code}).encode(), X_Review_Token=None, **headers
    )
    return status, json.loads(content).get("token")


def test_decisions_that_cannot_be_read_are_named_in_place_of_the_page(server):
    (server.reader.folder / DECISIONS_FILE).write_text("[]")
    status, _, content = ask(server, "/page")
    assert status == 409
    assert DECISIONS_FILE in json.loads(content)["problem"]


def test_a_code_is_exchanged_for_a_token_that_is_not_it(server):
    code = server.access.new_code()
    status, token = exchanged(server, code)
    assert status == 200
    assert token != code
    assert ask(server, "/page", X_Review_Token=token)[0] == 200
    assert ask(server, "/page", X_Review_Token=code)[0] == 403


def test_a_code_works_once_and_the_second_time_ends_what_the_first_has_opened(server):
    code, other = server.access.new_code(), server.access.new_code()
    _, token = exchanged(server, code)
    assert ask(server, "/case/0", X_Review_Token=token)[0] == 200
    assert exchanged(server, code) == (403, None)
    for path in ("/page", "/case/0", "/crop/0"):
        assert ask(server, path, X_Review_Token=token)[0] == 403
    assert ask(server, "/decisions", "POST", posted(server), X_Review_Token=token)[0] == 403
    assert stored(server) == ()
    assert exchanged(server, code) == (403, None)
    # Others go on.
    assert ask(server, "/case/0")[0] == 200
    assert exchanged(server, other)[0] == 200


@pytest.mark.parametrize("code", ["", "wrong", "\u00e4", "\ud800", "x" * 400])
def test_what_is_no_code_gets_nothing(server, code):
    assert exchanged(server, code)[1] is None
    assert ask(server, "/page", X_Review_Token="")[0] == 403


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"code": 1}', b'{"code":"a","code":"b"}'])
def test_a_broken_code_is_refused(server, body):
    assert ask(server, "/session", "POST", body)[0] == 400


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Origin": None}, {"Host": "evil.example"}])
def test_a_page_of_another_origin_gets_nothing_for_a_code(server, headers):
    code = server.access.new_code()
    assert exchanged(server, code, **headers)[1] is None
    # It was not used either.
    assert exchanged(server, code)[0] == 200


def test_many_who_give_one_code_at_the_same_time_get_one_token_that_ends(server):
    code = server.access.new_code()
    with ThreadPoolExecutor(8) as pool:
        tokens = [answer[1] for answer in pool.map(lambda _: exchanged(server, code), range(8))]
    (token,) = [token for token in tokens if token]
    assert ask(server, "/page", X_Review_Token=token)[0] == 403


def test_answers_keep_other_pages_out(server):
    _, headers, _ = ask(server, "/page")
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers
    assert "Python" not in headers["Server"]


@pytest.mark.parametrize("path", ["/page", "/page?token={token}", "/page?token=wrong", "/page?code={code}"])
def test_without_the_token_there_is_no_page(server, path):
    path = path.format(token=token_of(server), code=server.access.new_code())
    status, _, content = ask(server, path, X_Review_Token=None)
    assert status == 403
    assert b"patients" not in content


@pytest.mark.parametrize("path", ["/", "/?token={token}", "/?code={code}"])
def test_the_frame_that_everybody_gets_says_nothing_of_the_audit(server, path):
    status, _, content = ask(
        server, path.format(token=token_of(server), code=server.access.new_code()), X_Review_Token=None
    )
    assert status == 200
    text, audit = content.decode(), server.reader.audit
    secrets = [audit.site, audit.data, audit.model_sha256, "Dr Ada", token_of(server)]
    secrets += [case.image for case in audit.cases] + [
        finding_in_words(finding) for case in audit.cases for finding in case.findings
    ]
    assert [secret for secret in secrets if secret in text] == []


@pytest.mark.parametrize("path", ["/case/0", "/crop/0"])
@pytest.mark.parametrize("token", [None, "", "wrong", "ä"])
def test_without_the_token_there_is_no_case(server, path, token):
    assert ask(server, path, X_Review_Token=token)[0] == 403
    assert ask(server, path)[0] == 200


def test_without_the_token_nothing_is_decided(server):
    assert ask(server, "/decisions", "POST", posted(server), X_Review_Token=None)[0] == 403
    assert stored(server) == ()


@pytest.mark.parametrize(
    "host", [None, "evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}"]
)
def test_a_name_that_was_made_to_lead_here_gets_nothing(server, host):
    host = host and host.format(port=server.server_port)
    for path in ("/", "/page", "/case/0"):
        assert ask(server, path, Host=host)[0] == 421
    assert ask(server, "/decisions", "POST", posted(server), Host=host)[0] == 421
    assert stored(server) == ()


def test_localhost_is_this_server(server):
    assert ask(server, "/case/0", Host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1:1"]
)
def test_a_page_of_another_origin_decides_nothing(server, origin):
    origin = origin and origin.format(port=server.server_port)
    assert ask(server, "/decisions", "POST", posted(server), Origin=origin)[0] == 403
    assert stored(server) == ()


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/case/../../../etc/passwd",
        "/case/%2e%2e%2fetc%2fpasswd",
        "/case//etc/passwd",
        "/case/-1",
        "/case/4",
        "/case/99999999999999999999",
        "/case/%D9%A3",
        "/case/",
        "/case/0/1",
        "/findings.json",
        "/case",
    ],
)
def test_no_path_of_a_request_is_one_on_the_disk(server, path):
    assert ask(server, path)[0] == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_other_methods_are_none(server, method):
    assert ask(server, "/case/0", method)[0] == 501


def test_a_request_that_is_too_large_is_refused_unread(server):
    status, _, _ = ask(server, "/decisions", "POST", b"", Content_Length=str(MAX_REQUEST_BYTES + 1))
    assert status == 413


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Transfer_Encoding": "chunked"}, 415),
        ({"Content_Length": "-1"}, 411),
        ({"Content_Length": "1e3"}, 411),
        ({"Content_Length": None}, 411),
    ],
)
def test_only_json_of_a_known_length_is_read(server, headers, status):
    assert ask(server, "/decisions", "POST", posted(server), **headers)[0] == status
    assert stored(server) == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"choice": "delete"},
        {"reviewer": "somebody else"},
        {"case": -1},
        {"case": 0.5},
        {"reason": "x" * 2001},
        {"finding": "x" * 401},
    ],
)
def test_what_is_no_decision_is_refused(server, changes):
    body = json.dumps(json.loads(posted(server)) | changes).encode()
    assert ask(server, "/decisions", "POST", body)[0] == 400
    assert stored(server) == ()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"case": NaN}', b'{"case":0,"case":1}', b"\xff", b"[" * 5000])
def test_broken_json_is_refused(server, body):
    assert ask(server, "/decisions", "POST", body)[0] in (400, 409)
    assert stored(server) == ()


@pytest.mark.parametrize("changes", [{"case": 99}, {"finding": "unknown"}, {"shown": "ab"}, {"shown": ""}])
def test_a_decision_of_what_was_not_shown_is_refused(server, changes):
    assert ask(server, "/decisions", "POST", posted(server))[0] == 200
    before = stored(server)
    values = json.loads(posted(server)) | changes
    status, _, content = ask(server, "/decisions", "POST", json.dumps(values).encode())
    assert status == 409
    assert "load the page again" in json.loads(content)["problem"]
    assert stored(server) == before


def test_an_annotation_that_changes_after_it_was_shown_cannot_be_decided_on(server):
    body = posted(server)
    file = server.reader.files(server.cases[0]).label
    file.write_bytes(file.read_bytes() + b" ")
    status, _, content = ask(server, "/decisions", "POST", body)
    assert status == 409
    assert "is no longer the annotation that was shown" in json.loads(content)["problem"]


def test_a_changed_annotation_is_shown_as_it_is_now(server):
    before = json.loads(ask(server, "/case/0")[2])
    file = server.reader.files(server.cases[0]).label
    other = server.reader.files(server.cases[1]).label
    file.write_bytes(other.read_bytes())
    after = json.loads(ask(server, "/case/0")[2])
    assert after["version"] != before["version"]
    status, _, _ = ask(server, mask_path(before))
    assert status == 409
    assert ask(server, mask_path(after))[2] == ask(server, mask_path(json.loads(ask(server, "/case/1")[2]), case=1))[2]
    assert after["shown"] == server.reader.shown(server.cases[1])


WRONG = ["-1", "1.0", "1e0", "nan", "NaN", "inf", "%31%20", "0x1", "999999999", "٣", "", "../0", "0;1", "True"]


def test_pixels_and_masks_are_given_for_plain_numbers_alone(server):
    content = json.loads(ask(server, "/case/0")[2])
    assert ask(server, tile_path(content))[0] == ask(server, mask_path(content))[0] == 200
    assert len(ask(server, tile_path(content))[2]) == content["axes"][2]["width"] * content["axes"][2]["height"]
    for value in WRONG:
        quoted = value.encode("latin-1", "replace").decode("latin-1")
        for key in ("axis", "plane", "scale", "row", "column", "channel"):
            assert ask(server, tile_path(content, **{key: quoted}))[0] == 400, (key, value)
        for key in ("axis", "plane", "layer", "finding"):
            assert ask(server, mask_path(content, **{key: quoted}))[0] == 400, (key, value)
    for changes in (
        {"row": 1},
        {"column": 99999999},
        {"scale": 3},
        {"scale": 128},
        {"axis": 0},
        {"axis": 3},
        {"plane": 1},
    ):
        assert ask(server, tile_path(content, **changes))[0] == 404, changes
    for changes in ({"layer": 3}, {"layer": 2, "finding": 99}, {"plane": 1}, {"axis": 1}):
        assert ask(server, mask_path(content, **changes))[0] == 404, changes
    for path in (tile_path(content) + "&row=0", tile_path(content) + "&file=/etc/passwd", tile_path(content, row=None)):
        assert ask(server, path)[0] == 400
    for number in ("../0", "-1", "4", "1e0", "0/../0", "%30"):
        assert ask(server, tile_path(content).replace("/0?", f"/{number}?"))[0] == 404
    for version in ("", "0", "..", content["version"].upper() + "0"):
        assert ask(server, tile_path(content, version=version))[0] == 409


def test_pixels_and_masks_need_the_token(server):
    content = json.loads(ask(server, "/case/0")[2])
    for path in (tile_path(content), mask_path(content)):
        for token in (None, "", "wrong"):
            status, _, body = ask(server, path, X_Review_Token=token)
            assert status == 403
            assert list(json.loads(body)) == ["problem"]


def test_many_who_ask_for_pixels_at_the_same_time_read_an_image_once(server, monkeypatch):
    from fedannot.apps.audit import file_channels

    content, read = json.loads(ask(server, "/case/1")[2]), []
    server._pixels._pixels.clear()
    original = file_channels.read_displayed
    monkeypatch.setattr(file_channels, "read_displayed", lambda *given: read.append(given) or original(*given))
    paths = [tile_path(content, case=1), mask_path(content, case=1)] * 6
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda path: ask(server, path), paths))
    assert {status for status, _, _ in answers} == {200}
    assert len({body for _, _, body in answers}) == 2
    assert len(read) == 1


def test_the_first_case_is_read_ahead_until_a_page_asks(audit_of, monkeypatch):
    from fedannot.apps.audit.file_pixels import FilePixels

    found, read = audit_of("images"), []
    original = FilePixels._read_layer
    monkeypatch.setattr(FilePixels, "_read_layer", lambda own, *given: read.append(given[0]) or original(own, *given))
    with serving(found) as server:
        assert read == ["given", "predicted", "suggested"]
        content = json.loads(ask(server, "/case/0")[2])
        for layer in range(3):
            assert ask(server, mask_path(content, layer=layer))[0] == 200
        assert len(read) == 3
    # A page that is there before asks itself, and a review without a case has none.
    read.clear()
    for cases in (found.audit.cases, ()):
        audit = found.audit.model_copy(update={"cases": cases})
        with ReviewServer(CaseReader(FoundAudit(found.folder, audit)), None, "Dr Ada") as server:
            server.exchange(server.access.new_code())
            server._prepare_first()
            assert server.prepared.is_set()
    assert read == []


def test_what_is_kept_of_cases_has_an_end(server, monkeypatch):
    from fedannot.apps.audit import kept_pixels

    monkeypatch.setattr(kept_pixels, "_KEPT_BYTES", 1)
    for number in range(len(server.cases)):
        assert ask(server, f"/case/{number}")[0] == 200
        assert list(server._pixels._pixels) == [number]


def test_an_image_that_claims_more_than_it_holds_is_refused(server):
    file = server.reader.files(server.cases[0]).image
    content = bytearray(file.read_bytes())
    content[16:24] = struct.pack(">II", 10000, 10000)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    file.write_bytes(content)
    status, _, body = ask(server, "/case/0")
    assert status == 200
    assert "its header claims 10000 × 10000 pixels" in json.loads(body)["problem"]


def test_the_server_listens_on_the_loopback_alone(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"
    others = {address[4][0] for address in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in others - {"127.0.0.1", "127.0.1.1"}:
        with socket.socket() as probe:
            assert probe.connect_ex((address, server.server_port)) != 0


def test_every_server_has_a_token_of_its_own(audit_of):
    result = audit_of("classes")
    with serving(result) as first, serving(result) as second:
        assert len(token_of(first)) >= 43
        assert token_of(first) != token_of(second)
        assert ask(second, "/case/0", X_Review_Token=token_of(first))[0] == 403
        assert exchanged(second, first.access.new_code())[1] is None


def test_a_server_that_nobody_asks_ends(audit_of):
    server = ReviewServer(CaseReader(audit_of("classes")), None, "Dr Ada")
    start = time.monotonic()
    server.serve(0.2)
    server.server_close()
    assert time.monotonic() - start < 5


def test_requests_without_the_token_do_not_keep_a_server_alive(audit_of):
    server = ReviewServer(CaseReader(audit_of("classes")), None, "Dr Ada")
    thread = threading.Thread(target=server.serve, args=(1.5,), daemon=True)
    thread.start()
    end = time.monotonic() + 3
    while time.monotonic() < end and thread.is_alive():
        with contextlib.suppress(OSError):
            ask(server, "/case/0", timeout=0.5, X_Review_Token="wrong")
    thread.join(timeout=2)
    server.server_close()
    assert not thread.is_alive()


def test_connections_that_say_nothing_do_not_stop_others(server):
    silent = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(10)]
    try:
        assert ask(server, "/case/0")[0] == 200
    finally:
        for connection in silent:
            connection.close()


class Known:
    """A server of which an address is known; the code in it is exchanged."""

    def __init__(self, found, address):
        port, code = address.removeprefix("http://127.0.0.1:").split("/#")
        self.server_port, self.reader = int(port), CaseReader(found)
        self.cases = [case for case in found.audit.cases if case.findings]
        self.token = "none yet"
        _, self.token = exchanged(self, code)
        assert self.token


def command(folder):
    """Start the command and return it with the address that it prints."""
    arguments = ["review", str(folder), "--no-open", "--no-files", "--reviewer", "Dr Ada"]
    program = f"from fedannot.apps.commands.audit import audit_app; audit_app({arguments!r})"
    started = subprocess.Popen(
        [sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    line = started.stdout.readline()
    assert line.startswith("Review of site-1: http://127.0.0.1:"), started.stderr.read()
    return started, line.split(": ", 1)[1].strip()


def test_ctrl_c_ends_the_command_and_what_was_answered_is_stored(audit_of):
    result = audit_of("images")
    started, address = command(result.folder)
    known = Known(result, address)
    for case in range(2):
        assert ask(known, "/decisions", "POST", posted(known, case))[0] == 200
    started.send_signal(signal.SIGINT)
    _, errors = started.communicate(timeout=30)
    assert started.returncode == 130
    assert errors.splitlines() == ["Stopped by SIGINT. All decisions are stored."]
    assert len(read_decisions(result.folder, result.site).decisions) == 2


def test_the_command_ends_when_the_page_asks_nothing(audit_of):
    arguments = ["review", str(audit_of("classes").folder), "--no-open", "--no-files", "--idle-minutes", "0.02"]
    result = CliRunner().invoke(audit_app, arguments)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1].startswith("Ended after 0.02 minutes without a request.")


ASK_AS_ANOTHER = """
import http.client, os, socket, sys
os.setgid(65534)
os.setuid(65534)
family, port, path, token = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
host = f"127.0.0.1:{port}"
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
connection.sock = socket.socket(socket.AF_INET6 if family == "mapped" else socket.AF_INET)
connection.sock.connect(("::ffff:127.0.0.1" if family == "mapped" else "127.0.0.1", port))
connection.request("GET", path, headers={"Host": host, "X-Review-Token": token})
print(connection.getresponse().status)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux") or os.geteuid() != 0, reason="needs a second account")
@pytest.mark.parametrize("family", ["plain", "mapped"])
def test_another_account_gets_nothing_even_with_the_token(server, family):
    for path in ("/page", "/case/0", "/"):
        arguments = [
            sys.executable,
            "-I",
            "-c",
            ASK_AS_ANOTHER,
            family,
            str(server.server_port),
            path,
            token_of(server),
        ]
        answer = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
        assert answer.stdout.strip() == "403", answer.stderr


@pytest.mark.parametrize(("account", "status"), [(None, 200), (0, 200), ("own", 200), (1234567, 403)])
def test_the_account_at_the_other_end_decides(server, monkeypatch, account, status):
    result = os.geteuid() if account == "own" else account
    monkeypatch.setattr("fedannot.apps.audit.review_requests.account_at", lambda *_: result)
    assert ask(server, "/case/0")[0] == status
    assert ask(server, "/decisions", "POST", posted(server))[0] == status
    assert bool(stored(server)) == (status == 200)
