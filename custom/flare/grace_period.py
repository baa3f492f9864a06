"""How long a round waits for the last sites when enough of them have answered."""

import time


class GracePeriod:
    """Begins with the k-th usable answer, and is over some seconds later.

    Args:
        enough: k, the number of usable answers without which a round does not count.
        seconds: how long the others have from then on; None for as long as their task may take.
    """

    def __init__(self, enough: int, seconds: float | None) -> None:
        self.seconds = seconds
        self._missing = enough
        self._began: float | None = None

    def count_usable_answer(self) -> None:
        """Take note of one more usable answer."""
        self._missing -= 1
        if self._missing <= 0 and self._began is None:
            self._began = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether the sites that have not answered have had their time."""
        if self.seconds is None or self._began is None:
            return False
        return time.monotonic() - self._began >= self.seconds
