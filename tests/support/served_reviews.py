"""A review that is served in the test's own process, which starts at once."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.found import FoundAudit
from fedannot.apps.audit.review import ReviewServer


def new_address(server: ReviewServer) -> str:
    """An address of a review, which works once."""
    return server.address_of(server.access.new_code())


def new_token(server: ReviewServer) -> str:
    """A token of a review, as a page gets it for the code in its address."""
    token = server.access.exchange(server.access.new_code()).token
    assert token is not None
    return token


@contextmanager
def serving(found: FoundAudit, idle: float = 600.0, *, is_prepared: bool = True) -> Iterator[ReviewServer]:
    """Serve the review of an audit until the block ends; from the start, or once its first case was read ahead."""
    server = ReviewServer(CaseReader(found), None, "Dr Ada")
    thread = threading.Thread(target=server.serve, args=(idle,), daemon=True)
    thread.start()
    if is_prepared:
        server.prepared.wait()
    try:
        yield server
    finally:
        # As if nobody had ever asked; a connection has it notice at once. A request that is still answered may set the
        # time again.
        while thread.is_alive():
            server._last_request = float("-inf")
            socket.create_connection(("127.0.0.1", server.server_port)).close()
            thread.join(0.2)
        server.server_close()
