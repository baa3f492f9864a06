"""What a page asks of a review, and how each request is answered; every other is refused."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import ValidationError

from ...custom.data.json_record import JsonRecord
from ...transforms.errors import DataError
from ...transforms.printable import printable
from ...transforms.strict_files import parse_json
from .contradictions import ContradictionError
from .file_pixels import PlaneRequest, TileRequest
from .peer_account import account_at
from .posted import PostedCode, PostedDecision, PostedMask, PostedMove, PostedUndo
from .site_page import decision_values

if TYPE_CHECKING:
    from .review import ReviewServer

TOKEN_HEADER = "X-Review-Token"
MAX_REQUEST_BYTES = 2**14
# Of a mask as run lengths: that of a drawing on 4,000² pixels has less than a tenth of it.
MAX_MASK_BYTES = 2**24

# How long a connection may say nothing, in seconds.
_CONNECTION_TIMEOUT = 20
_BINARY = "application/octet-stream"
_TILE_KEYS = tuple(field.name for field in fields(TileRequest))
_MASK_KEYS = tuple(field.name for field in fields(PlaneRequest))
_CHANNEL_KEYS = ("channel",)
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


@dataclass(frozen=True)
class _Request:
    """What a page may post: what it is called, its form, the most bytes that it may have, and who answers it."""

    name: str
    form: type[JsonRecord]
    max_bytes: int
    answer: Callable[["ReviewServer", Any], Mapping[str, Any]]


def _answer_decision(server: "ReviewServer", posted: PostedDecision) -> Mapping[str, Any]:
    decisions = [decision_values(decision) for decision in server.decide(posted)]
    return {"decision": decisions[0], "decisions": decisions}


def _answer_undo(server: "ReviewServer", posted: PostedUndo) -> Mapping[str, Any]:
    counting = server.undo(posted)
    return {"decisions": {name: one and decision_values(one) for name, one in counting.items()}}


def _answer_stored_mask(server: "ReviewServer", posted: PostedMask) -> Mapping[str, Any]:
    record = server.store_mask(posted)
    return {"mask": record.id, "changed": record.changed}


_REQUESTS = {
    "/decisions": _Request("decision", PostedDecision, MAX_REQUEST_BYTES, _answer_decision),
    "/undo": _Request("decision", PostedUndo, MAX_REQUEST_BYTES, _answer_undo),
    "/mask": _Request("mask", PostedMask, MAX_MASK_BYTES, _answer_stored_mask),
    "/move": _Request("mask", PostedMove, MAX_MASK_BYTES, lambda server, posted: {"planes": server.moved(posted)}),
}


class ReviewHandler(BaseHTTPRequestHandler):
    """Answers one request; every other than the few that the page makes is refused."""

    server: "ReviewServer"
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
        if kind not in ("case", "channel", "crop", "pixels", "mask", "annotation", "suggestion"):
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
        elif kind == "channel":
            self._answer_channel(int(number), address.query)
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

    def _answer_channel(self, number: int, query: str) -> None:
        asked = _asked(query, _CHANNEL_KEYS)
        if asked is None:
            self._refuse(HTTPStatus.BAD_REQUEST, "This is no channel of an image.")
            return
        try:
            content = self.server.channel(number, asked[0], asked[1]["channel"])
        except LookupError:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such channel.")
        except (DataError, OSError) as error:
            self._refuse(HTTPStatus.CONFLICT, str(error))
        else:
            self._answer_json(HTTPStatus.OK, content)

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
