"""The review of an audit in a browser on this machine: one small server that ends with the command.

It listens on the loopback address alone. Who has no token gets an empty frame, a page of another origin nothing. No
part of a request is ever used as a path: cases are asked for by their number.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import ThreadingHTTPServer
from typing import Any

from ...custom.audit.case_list import listed_cases
from ...custom.audit.decisions import Decision, Decisions, read_decisions
from ...custom.audit.drawn_masks import DrawnMask
from ...custom.audit.findings import AuditedCase, Finding
from ...transforms.errors import DataError
from ...transforms.printable import printable
from ..checking.report import SiteReport
from .case_files import CaseReader
from .case_pictures import UnreadableCase
from .contradictions import ContradictionError, contradicted
from .file_channels import ChannelDescription
from .file_pixels import LAYERS, CaseDescription, PlaneRequest, TileRequest
from .kept_pixels import KeptPixels
from .mask_planes import Runs
from .mending import AnnotationContent, Mending, SuggestionContent, check_shown, stored_mask
from .posted import PostedDecision, PostedMask, PostedMove, PostedUndo
from .review_access import Exchange, ReviewAccess
from .review_requests import ReviewHandler
from .site_page import review_frame, served_page
from .stored_decisions import new_decision, store_decisions, undone, with_consequences

HOST = "127.0.0.1"
# How often the server looks whether it is idle, in seconds.
_POLL = 0.5
_MAX_CONNECTIONS = 32


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
        prepared: set once the first case that a page asks for has been read ahead.
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
        self.prepared = threading.Event()
        self._is_opened = False
        self._last_request = time.monotonic()
        self._pixels = KeptPixels(reader, self.cases)
        self._crops: dict[int, str] = {}
        self._mending = Mending(reader)
        self._cropping = threading.Lock()
        self._free = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        if self.cases:
            # What reads images takes seconds to load, for which no reader should wait.
            self.description(0)
        try:
            super().__init__((HOST, port), ReviewHandler)
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
        threading.Thread(target=self._prepare_first, daemon=True).start()
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
            self._is_opened = True
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
            with self._pixels.now(number) as pixels:
                shown = self.reader.shown(case)
                with self._pixels.reading:
                    return pixels.describe(shown, blind_first=self.blind_first)
        except (DataError, OSError) as error:
            return {"problem": printable(str(error))}

    def channel(self, number: int, version: str, channel: int) -> ChannelDescription:
        """Return what the page needs of a channel before it asks for its pixels.

        Raises:
            LookupError: if there is no such channel.
            DataError: if the files are no longer those of this version, or cannot be read.
        """
        with self._pixels.of_version(number, version) as pixels:
            return pixels.channels.describe(channel)

    def tile(self, number: int, version: str, request: TileRequest) -> bytes:
        """Return a part of an image; see :meth:`.file_pixels.FilePixels.tile`.

        Raises:
            DataError: if the files are no longer those of this version, or cannot be read.
        """
        with self._pixels.of_version(number, version) as pixels:
            return pixels.tile(request)

    def mask(self, number: int, version: str, request: PlaneRequest) -> bytes:
        """Return the classes of a plane; see :meth:`.file_pixels.FilePixels.runs`, errors as above."""
        with self._pixels.of_version(number, version) as pixels, self._pixels.reading:
            return pixels.runs(request)

    def crop(self, number: int) -> str:
        """Return the small picture of a case as an address with the data in it; empty if it cannot be read."""
        # Nobody who looks at a case waits for the small pictures of others.
        with self._cropping:
            if number not in self._crops:
                try:
                    with self._pixels.read_once(number) as pixels:
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

    def _prepare_first(self) -> None:
        """Read what the page asks for first, until it asks itself; it is kept as what a page has asked for."""
        try:
            for layer in LAYERS if self.cases else ():
                if self._is_opened:
                    break
                with suppress(DataError, OSError, LookupError), self._pixels.now(0) as pixels, self._pixels.reading:
                    pixels.classes(layer)
        finally:
            self.prepared.set()

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
