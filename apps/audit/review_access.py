"""Who may see a review: codes that work once, and the tokens that they are exchanged for.

An address is seen by others: it stands in the argument list of the browser, in its history, in a terminal. It holds a
code alone, which works once. What the code is exchanged for stays in the page.
"""

import hmac
import secrets
import threading
from dataclasses import dataclass, field

_SECRET_BYTES = 32


@dataclass
class _Grant:
    """A code, and the token that it was exchanged for.

    Attributes:
        code: works once.
        token: None before that, and after the code was given a second time.
        is_used: whether it was given at all.
    """

    code: str = field(default_factory=lambda: secrets.token_urlsafe(_SECRET_BYTES))
    token: str | None = None
    is_used: bool = False


@dataclass(frozen=True)
class Exchange:
    """What somebody got for a code.

    Attributes:
        token: opens the page; None where there is none for it.
        is_repeated: whether the code had been used before, which ends what it had opened.
    """

    token: str | None = None
    is_repeated: bool = False


class ReviewAccess:
    """The codes and tokens of one review; several threads may ask at the same time."""

    def __init__(self) -> None:
        self._grants: list[_Grant] = []
        self._lock = threading.Lock()

    def new_code(self) -> str:
        """Return a new code, which works once."""
        grant = _Grant()
        with self._lock:
            self._grants.append(grant)
        return grant.code

    def exchange(self, code: str) -> Exchange:
        """Return a token for a code.

        A code that comes a second time has been seen by somebody else. Nobody knows who was the first: the token that
        it was exchanged for ends.
        """
        with self._lock:
            matching = [grant for grant in self._grants if _is_same(code, grant.code)]
            if not matching:
                return Exchange()
            (grant,) = matching
            grant.token = None if grant.is_used else secrets.token_urlsafe(_SECRET_BYTES)
            is_repeated, grant.is_used = grant.is_used, True
            return Exchange(grant.token, is_repeated)

    def is_known(self, token: str) -> bool:
        """Return whether a token opens the page; takes as long for every wrong one."""
        with self._lock:
            result = [grant.token is not None and _is_same(token, grant.token) for grant in self._grants]
        return any(result)


def _is_same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), known.encode())
