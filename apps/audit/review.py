"""The review of an audit in a browser on this machine: one small server that ends with the command.

It listens on the loopback address alone. Who has no token gets an empty frame, a page of another origin nothing. No
part of a request is ever used as a path: cases are asked for by their number.
"""

import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import ValidationError

from ...custom.audit.case_list import listed_cases
from ...custom.audit.decisions import Decision, Decisions, read_decisions
from ...custom.audit.drawn_masks import DrawnMask
from ...custom.audit.findings import AuditedCase, Finding
from ...custom.data.json_record import JsonRecord
from ...transforms.errors import DataError
from ...transforms.printable import printable
from ...transforms.strict_files import parse_json
from ..checking.report import SiteReport
from .case_files import CaseReader
from .case_pictures import UnreadableCase
from .contradictions import ContradictionError, contradicted
from .file_pixels import CaseDescription, FilePixels, PlaneRequest, TileRequest
from .mask_planes import Runs
from .mending import AnnotationContent, Mending, SuggestionContent, check_shown, stored_mask
from .peer_account import account_at
from .posted import PostedCode, PostedDecision, PostedMask, PostedMove, PostedUndo
from .review_access import Exchange, ReviewAccess
from .site_page import decision_values, review_frame, served_page
from .stored_decisions import new_decision, store_decisions, undone, with_consequences

HOST = "127.0.0.1"
TOKEN_HEADER = "X-Review-Token"
MAX_REQUEST_BYTES = 2**14
# Of a mask as run lengths: that of a drawing on 4,000² pixels has less than a tenth of it.
MAX_MASK_BYTES = 2**24

# How long a connection may say nothing, and how often the server looks whether it is idle, in seconds.
_CONNECTION_TIMEOUT = 20
_POLL = 0.5
_MAX_CONNECTIONS = 32
# Cases whose pixels stay in memory: so many bytes in all, but always the last one.
_KEPT_BYTES = 2**29
_KEPT_CASES = 8
_BINARY = "application/octet-stream"
_TILE_KEYS = tuple(field.name for field in fields(TileRequest))
_MASK_KEYS = tuple(field.name for field in fields(PlaneRequest))
_VERSION = "version"
_HTML = "text/html; charset=utf-8"
_LAST_ADDRESS = "Open the address that the command has printed last."
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class ReviewServer(ThreadingHTTPServer):
    """Serves the review of one audit to whoever has a token.

    Args:
        reader: of the audit.
        files: what the check of the site's files found; None where they were not checked.
        reviewer: who reviews.
        port: to listen on; 0 for any that is free.
        is_blind: whether the decisions of other reviewers stay away from the page.
        blind_first: hide predictions and findings of a case until the reader has judged its annotation.

    Attributes:
        access: the codes of its addresses, and the tokens that requests must know; new with every server.
        on_exchange: learns of every code of this review that somebody gave, and whether it had been used before.

    Raises:
        OSError: if the port is taken.
    """

    daemon_threads = True
    timeout = _POLL

    def __init__(
        self,
        reader: CaseReader,
        files: SiteReport | None,
        reviewer: str,
        *,
        port: int = 0,
        is_blind: bool = False,
        blind_first: bool = False,
    ) -> None:
        self.reader, self.files, self.reviewer = reader, files, reviewer
        self.is_blind, self.blind_first = is_blind, blind_first
        self.cases = listed_cases(reader.audit)
        self.access = ReviewAccess()
        self.on_exchange: Callable[[str, bool], None] | None = None
        self.frame = review_frame()
        self._last_request = time.monotonic()
        self._pixels: OrderedDict[int, FilePixels] = OrderedDict()
        self._crops: dict[int, str] = {}
        self._mending = Mending(reader)
        self._reading, self._keeping, self._cropping = threading.Lock(), threading.Lock(), threading.Lock()
        self._free = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        if self.cases:
            # What reads images takes seconds to load, for which no reader should wait.
            self.description(0)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror}; choose another --port, or 0", f"{HOST}:{port}") from error

    def address_of(self, code: str) -> str:
        """Return the address with a code; what follows the # is never sent, nor reported to other pages."""
        return f"http://{HOST}:{self.server_port}/#{code}"

    @property
    def hosts(self) -> frozenset[str]:
        """What a request may call this server."""
        return frozenset({f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"})

    def serve(self, idle_seconds: float) -> None:
        """Answer requests until nobody with the token has asked anything for so long."""
        while time.monotonic() - self._last_request < idle_seconds:
            self.handle_request()

    def is_known(self, token: str) -> bool:
        """Return whether it is a token of this server; takes as long for every wrong one."""
        known = self.access.is_known(token)
        if known:
            self._last_request = time.monotonic()
        return known

    def exchange(self, code: str) -> str | None:
        """Return a token for a code that works once; None if it is unknown or was used before."""
        exchanged = self.access.exchange(code)
        if exchanged.token is not None:
            self._last_request = time.monotonic()
        if self.on_exchange is not None and exchanged != Exchange():
            self.on_exchange(code, exchanged.is_repeated)
        return exchanged.token

    def page(self) -> str:
        """Return the page with the decisions as they are now."""
        return served_page(self.reader, self.files, self.reviewer, is_blind=self.is_blind)

    def description(self, number: int) -> CaseDescription | UnreadableCase:
        """Return what the page needs of a case before it asks for pixels."""
        case = self.cases[number]
        try:
            # In this order: of an annotation that changes in between no pixel is given.
            pixels = self._pixels_now(number)
            shown = self.reader.shown(case)
            with self._reading:
                return pixels.describe(shown, blind_first=self.blind_first)
        except (DataError, OSError) as error:
            return {"problem": printable(str(error))}

    def tile(self, number: int, version: str, request: TileRequest) -> bytes:
        """Return a part of an image; see :meth:`.file_pixels.FilePixels.tile`.

        Raises:
            DataError: if the files are no longer those of this version, or cannot be read.
        """
        return self._pixels_of(number, version).tile(request)

    def mask(self, number: int, version: str, request: PlaneRequest) -> bytes:
        """Return the classes of a plane; see :meth:`.file_pixels.FilePixels.runs`, errors as above."""
        pixels = self._pixels_of(number, version)
        with self._reading:
            return pixels.runs(request)

    def _pixels_of(self, number: int, version: str) -> FilePixels:
        pixels = self._pixels_now(number)
        if pixels.version != version:
            raise DataError(f"{self.cases[number].image}: its files have changed; load the page again.")
        return pixels

    def _pixels_now(self, number: int) -> FilePixels:
        """A case in the pixels of its files, as they are now; the last cases stay in memory."""
        case = self.cases[number]
        version = self.reader.version_of_files(case)
        pixels = self._kept(number, version)
        if pixels is not None:
            return pixels
        # One at a time: a large image takes much memory, and several are no faster.
        with self._reading:
            pixels = self._kept(number, version) or FilePixels(self.reader, case, version)
            with self._keeping:
                self._pixels[number] = pixels
                self._pixels.move_to_end(number)
                while len(self._pixels) > 1 and (
                    len(self._pixels) > _KEPT_CASES or sum(own.nbytes for own in self._pixels.values()) > _KEPT_BYTES
                ):
                    self._pixels.popitem(last=False)
            return pixels

    def _kept(self, number: int, version: str) -> FilePixels | None:
        with self._keeping:
            pixels = self._pixels.get(number)
            if pixels is None or pixels.version != version:
                return None
            self._pixels.move_to_end(number)
            return pixels

    def crop(self, number: int) -> str:
        """Return the small picture of a case as an address with the data in it; empty if it cannot be read."""
        # Nobody who looks at a case waits for the small pictures of others.
        with self._cropping:
            if number not in self._crops:
                case = self.cases[number]
                try:
                    version = self.reader.version_of_files(case)
                    pixels = self._kept(number, version) or FilePixels(self.reader, case, version)
                    self._crops[number] = pixels.crop()
                except (DataError, OSError):
                    self._crops[number] = ""
        return self._crops[number]

    def decide(self, posted: PostedDecision) -> tuple[Decision, ...]:
        """Store a decision with all that it entails, and return the records when they are on the disk.

        A drawn mask decides about all findings of its case, but for those that were kept. What a decision contradicts
        is to be decided later, once the reader has confirmed that.

        Raises:
            ContradictionError: if it contradicts decisions of its case, and the reader has not confirmed it.
            DataError: if there is no such finding, nothing is suggested that could be accepted, there is no such mask,
                or the annotation is no longer the one that was shown.
        """
        case, finding = self.case(posted.case), self._finding(posted.case, posted.finding)
        check_shown(self.reader, case, posted.shown)
        if posted.choice == "edit":
            stored_mask(self.reader, case, posted.mask, posted.shown)

        decision = new_decision(
            finding.id,
            posted.choice,
            reviewer=self.reviewer,
            reason=posted.reason,
            shown=posted.shown,
            mask=posted.mask,
            is_blind=self.is_blind,
        )

        def made(before: Decisions) -> tuple[Decision, ...]:
            counting = self._seen(before).counting
            gone = contradicted(self.reader, case, finding, posted.choice, self.reviewer, counting)
            if gone - set(posted.confirmed):
                raise ContradictionError(case, gone)
            return with_consequences(case, decision, counting, gone)

        stored = store_decisions(self.reader.folder, self.reader.audit, made)
        return tuple(one for one in stored.decisions if one.action == decision.action)

    def undo(self, posted: PostedUndo) -> dict[str, Decision | None]:
        """Undo an action of this reviewer; return what counts now of the findings that it was of.

        Raises:
            DataError: if there is no such action that could be undone.
        """
        decisions = store_decisions(
            self.reader.folder,
            self.reader.audit,
            lambda before: undone(self._seen(before), posted.action, self.reviewer),
        )
        counting = self._seen(decisions).counting
        findings = [one.finding for one in decisions.decisions if one.action == posted.action]
        return {name: counting.get(name) for name in findings}

    def annotation(self, number: int) -> AnnotationContent:
        """Return the given annotation of a case in its file's pixels, and the drawn mask that counts.

        Raises:
            DataError: if it cannot be read, or is a class.
        """
        case = self.case(number)
        counting = self._seen(read_decisions(self.reader.folder, self.reader.audit.site)).counting
        shown, masks = self.reader.shown(case), {""}
        for finding in case.findings:
            if finding.id in counting and counting[finding.id].shown == shown:
                masks.add(counting[finding.id].mask)
        # Never more than one: a further one contradicts it.
        return self._mending.annotation(case, max(masks))

    def suggestion(self, number: int, finding: int) -> SuggestionContent:
        """Return the objects that a finding's suggestion changes.

        Raises:
            DataError: if nothing is suggested, or it cannot be read.
        """
        return self._mending.suggestion(self.case(number), self.case(number).findings[finding].id)

    def moved(self, posted: PostedMove) -> dict[str, Runs]:
        """Return the planes that change when a mask is moved; nothing is stored.

        Raises:
            DataError: if the mask is none of the case.
        """
        return self._mending.moved(self.case(posted.case), posted)

    def store_mask(self, posted: PostedMask) -> DrawnMask:
        """Store a mask as a new file, and return its record when it is on the disk.

        Raises:
            DataError: if the mask is none of the case.
        """
        return self._mending.store(self.case(posted.case), posted, self.reviewer)

    def case(self, number: int) -> AuditedCase:
        """Return a case by its number on the page.

        Raises:
            DataError: if there is none.
        """
        if number >= len(self.cases):
            raise DataError(f"There is no case number {number}; load the page again.")
        return self.cases[number]

    def _seen(self, decisions: Decisions) -> Decisions:
        """The decisions that the reader knows of."""
        return decisions.of_reviewer(self.reviewer) if self.is_blind else decisions

    def _finding(self, number: int, name: str) -> Finding:
        case = self.case(number)
        for finding in case.findings:
            if finding.id == name:
                return finding
        raise DataError(f"{case.image} has no finding {name!r}; load the page again.")

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread, so many at a time; further ones are turned away."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that end early, as a browser's do when a page is left."""


@dataclass(frozen=True)
class _Request:
    """What a page may post: what it is called, its form, the most bytes that it may have, and who answers it."""

    name: str
    form: type[JsonRecord]
    max_bytes: int
    answer: Callable[[ReviewServer, Any], Mapping[str, Any]]


def _answer_decision(server: ReviewServer, posted: PostedDecision) -> Mapping[str, Any]:
    decisions = [decision_values(decision) for decision in server.decide(posted)]
    return {"decision": decisions[0], "decisions": decisions}


def _answer_undo(server: ReviewServer, posted: PostedUndo) -> Mapping[str, Any]:
    counting = server.undo(posted)
    return {"decisions": {name: one and decision_values(one) for name, one in counting.items()}}


def _answer_stored_mask(server: ReviewServer, posted: PostedMask) -> Mapping[str, Any]:
    record = server.store_mask(posted)
    return {"mask": record.id, "changed": record.changed}


_REQUESTS = {
    "/decisions": _Request("decision", PostedDecision, MAX_REQUEST_BYTES, _answer_decision),
    "/undo": _Request("decision", PostedUndo, MAX_REQUEST_BYTES, _answer_undo),
    "/mask": _Request("mask", PostedMask, MAX_MASK_BYTES, _answer_stored_mask),
    "/move": _Request("mask", PostedMove, MAX_MASK_BYTES, lambda server, posted: {"planes": server.moved(posted)}),
}


class _Handler(BaseHTTPRequestHandler):
    """Answers one request; every other than the few that the page makes is refused."""

    server: ReviewServer
    timeout = _CONNECTION_TIMEOUT

    def do_GET(self) -> None:
        """The frame, the page in it, a case, its small picture, its pixels or its annotations."""
        if not self._is_addressed():
            return
        address = urlsplit(self.path)
        path = address.path
        if path == "/":
            self._answer(HTTPStatus.OK, _HTML, self.server.frame)
            return
        if path == "/page":
            if self._has_token(self.headers.get(TOKEN_HEADER, "")):
                self._answer_page()
            return
        kind, _, number = path.removeprefix("/").partition("/")
        if kind not in ("case", "crop", "pixels", "mask", "annotation", "suggestion"):
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")
            return
        if not self._has_token(self.headers.get(TOKEN_HEADER, "")):
            return
        number, _, finding = number.partition("/") if kind == "suggestion" else (number, "", "0")
        if not (
            _is_index(number, len(self.server.cases))
            and (kind != "suggestion" or _is_index(finding, len(self.server.cases[int(number)].findings)))
        ):
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such case.")
        elif kind == "case":
            self._answer_json(HTTPStatus.OK, self.server.description(int(number)))
        elif kind == "crop":
            self._answer_json(HTTPStatus.OK, {"crop": self.server.crop(int(number))})
        elif kind in ("pixels", "mask"):
            self._answer_pixels(kind, int(number), address.query)
        else:
            self._answer_mask(int(number), None if kind == "annotation" else int(finding))

    def _answer_page(self) -> None:
        try:
            page = self.server.page()
        except (DataError, OSError) as error:
            self._refuse(HTTPStatus.CONFLICT, str(error))
        else:
            self._answer(HTTPStatus.OK, _HTML, page)

    def _answer_pixels(self, kind: str, number: int, query: str) -> None:
        """A part of an image, or the classes of a plane."""
        asked = _asked(query, _TILE_KEYS if kind == "pixels" else _MASK_KEYS)
        if asked is None:
            self._refuse(HTTPStatus.BAD_REQUEST, "This is no part of an image.")
            return
        version, numbers = asked
        try:
            if kind == "pixels":
                body = self.server.tile(number, version, TileRequest(**numbers))
            else:
                body = self.server.mask(number, version, PlaneRequest(**numbers))
        except LookupError:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such part of an image.")
        except (DataError, OSError) as error:
            self._refuse(HTTPStatus.CONFLICT, str(error))
        else:
            self._answer(HTTPStatus.OK, _BINARY, body)

    def _answer_mask(self, number: int, finding: int | None) -> None:
        try:
            server = self.server
            content = server.annotation(number) if finding is None else server.suggestion(number, finding)
        except (DataError, OSError) as error:
            self._refuse(HTTPStatus.CONFLICT, str(error))
        else:
            self._answer_json(HTTPStatus.OK, content)

    def do_POST(self) -> None:
        """A code for a token, a decision, a mask, or what is to become of them."""
        if not self._is_addressed() or not self._is_own_origin():
            return
        if self.path == "/session":
            self._exchange_code()
            return
        request = _REQUESTS.get(self.path)
        if request is None:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")
            return
        if not self._has_token(self.headers.get(TOKEN_HEADER, "")):
            return
        body = self._body(request.max_bytes)
        if body is None:
            return
        try:
            answer = request.answer(self.server, request.form.model_validate(parse_json(body, "the request")))
        except ValidationError:
            self._refuse(HTTPStatus.BAD_REQUEST, f"This is no {request.name}; load the page again.")
        except ContradictionError as error:
            self._answer_json(HTTPStatus.CONFLICT, {"problem": printable(str(error)), "contradicts": error.findings})
        except DataError as error:
            self._refuse(HTTPStatus.CONFLICT, str(error))
        except OSError as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"the {request.name} cannot be written ({error.strerror}).")
        else:
            self._answer_json(HTTPStatus.OK, answer)

    def _exchange_code(self) -> None:
        body = self._body(MAX_REQUEST_BYTES)
        if body is None:
            return
        try:
            code = PostedCode.model_validate(parse_json(body, "the request")).code
        except (ValidationError, DataError):
            self._refuse(HTTPStatus.BAD_REQUEST, "This is no code.")
            return
        token = self.server.exchange(code)
        if token is None:
            self._refuse(HTTPStatus.FORBIDDEN, f"This address works once, and no more. {_LAST_ADDRESS}")
        else:
            self._answer_json(HTTPStatus.OK, {"token": token})

    def _is_addressed(self) -> bool:
        """Whether the request is for this server by its name, which leads nowhere else, and of this account."""
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "This server is not called so.")
            return False
        # Whatever it knows; root may do everything anyway, and forwards ports.
        if account_at(self.client_address[1], self.server.server_port) not in (None, 0, os.geteuid()):
            self._refuse(HTTPStatus.FORBIDDEN, "This review is another account's.")
            return False
        return True

    def _is_own_origin(self) -> bool:
        """Whether a page of this server asks."""
        if self.headers.get("Origin") == f"http://{self.headers.get('Host')}":
            return True
        self._refuse(HTTPStatus.FORBIDDEN, "Only this server's own page may do this.")
        return False

    def _has_token(self, token: str) -> bool:
        if self.server.is_known(token):
            return True
        self._refuse(HTTPStatus.FORBIDDEN, _LAST_ADDRESS)
        return False

    def _body(self, max_bytes: int) -> str | None:
        """The request's body, None if it was refused."""
        if self.headers.get_content_type() != "application/json" or "Transfer-Encoding" in self.headers:
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Expected JSON of a known length.")
            return None
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 9):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "Expected JSON of a known length.")
            return None
        if int(length) > max_bytes:
            problem = f"Found {length} bytes; expected at most {max_bytes}."
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)
            # A browser that cannot send all of it would take the command for ended.
            self._discard(int(length))
            return None
        try:
            return self.rfile.read(int(length)).decode("utf-8")
        except UnicodeDecodeError:
            self._refuse(HTTPStatus.BAD_REQUEST, "Expected UTF-8.")
            return None

    def _discard(self, length: int) -> None:
        while length > 0 and (part := self.rfile.read(min(length, MAX_REQUEST_BYTES))):
            length -= len(part)

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        self._answer_json(status, {"problem": printable(problem)})

    def _answer_json(self, status: HTTPStatus, content: Any) -> None:
        self._answer(status, "application/json", json.dumps(content, allow_nan=False))

    def _answer(self, status: HTTPStatus, kind: str, content: str | bytes) -> None:
        body = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def end_headers(self) -> None:
        """End the head of every answer with what keeps other pages out."""
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def version_string(self) -> str:
        """Say nothing of versions."""
        return "fedannot"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing; the command's terminal is for its reader."""


def _is_index(text: str, length: int) -> bool:
    """Whether it is an index: digits alone, and few."""
    return text.isascii() and text.isdigit() and len(text) < 9 and int(text) < length


def _asked(query: str, keys: tuple[str, ...]) -> tuple[str, dict[str, int]] | None:
    """The version and the numbers of a query that has each of these keys once and no other; None of any else.

    Numbers are digits alone, and few.
    """
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=len(keys) + 1)
    except ValueError:
        return None
    given = dict(pairs)
    if len(pairs) != len(keys) + 1 or set(given) != {*keys, _VERSION}:
        return None
    version = given.pop(_VERSION)
    if not all(value.isascii() and value.isdigit() and len(value) < 9 for value in given.values()):
        return None
    return version, {key: int(value) for key, value in given.items()}
