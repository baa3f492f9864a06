"""How a review is opened: a private file that leads the browser to it, and addresses that work once.

The argument list of a browser can be read by every account of the machine. It holds the name of the file alone, which
nobody else can read.
"""

import os
import shutil
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from ...custom.data.whole_files import is_open_to_others, private_file
from .review import ReviewServer

_PREFIX = "open-review-"
_FILE = "review.html"
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
# Letters of an address need no escape.
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>Annotation review</title>
<p><a href="{address}">Open the review</a></p>
</html>
"""


class ReviewOpening:
    """Opens a review in the browser, and says the next address when one was used.

    Args:
        server: of the review.
        say: prints a line for the reader.
        warn: prints a line that asks for attention.
    """

    def __init__(self, server: ReviewServer, say: Callable[[str], None], warn: Callable[[str], None]) -> None:
        self._server, self._say, self._warn = server, say, warn
        self._printed = self._in_file = ""
        self._folder: Path | None = None
        self._lock = threading.Lock()
        server.on_exchange = self._exchanged

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def new_address(self) -> str:
        """Return an address for the reader, which works once; when it was used the next one is said."""
        self._printed = self._server.access.new_code()
        return self._server.address_of(self._printed)

    def open_browser(self) -> bool:
        """Open the review in the reader's browser by a private file; return whether that was tried.

        The file lies next to the audit: browsers that are confined, such as snaps, read neither temporary nor hidden
        folders. It is gone when it was used, and with the command.
        """
        if sys.platform == "linux" and not any(os.environ.get(name) for name in _DISPLAYS):
            return False
        folder = _private_place(self._server.reader.folder)
        if folder is None:
            return False
        self._folder, self._in_file = folder, self._server.access.new_code()
        page = _PAGE.format(address=self._server.address_of(self._in_file))
        private_file(folder / _FILE).write_text(page, encoding="utf-8")
        # Browsers of the terminal return when they end.
        address = (folder / _FILE).resolve().as_uri()
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        return True

    def _exchanged(self, code: str, is_repeated: bool) -> None:
        """Clear up behind a code that was used, or say that one was used twice."""
        with self._lock:
            if is_repeated:
                self._warn(
                    "warning: an address of this review was used a second time. The page that it had opened is closed, "
                    "as nobody knows whose it is. If the second time was not yours, another account of this machine "
                    "has seen the address."
                )
            if code == self._in_file:
                self._remove()
            if is_repeated or code == self._printed:
                self._say(f"To open the review again: {self.new_address()}")

    def _remove(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _private_place(beside: Path) -> Path | None:
    """A new folder that nobody else can enter; None where there is no disk that keeps others out."""
    for place in (beside, Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())):
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        except OSError:
            continue
        # Some disks give all files the same mode.
        if not is_open_to_others(folder):
            return folder
        folder.rmdir()
    return None
