"""What becomes of a model that a site has announced and the server cannot fetch.

NVFlare sends a result's tensors after the message: the receiver fetches them while it decodes. Where that fails (the
connection breaks, the site cannot serve them) NVFlare ends the server's process of the job. Here the result arrives
without its values, and the controller refuses it like any other that cannot be used.
"""

from typing import Any

from nvflare.app_opt.pt.decomposers import TensorDecomposer


class Unfetched:
    """In place of a tensor that was not fetched."""


class _Nothing:
    """In place of fetched tensors: each of them is missing."""

    def __len__(self) -> int:
        """Nothing was fetched."""
        return 0

    def __contains__(self, item: str) -> bool:
        """Say of every tensor that it is there."""
        return True

    def get(self, item: str) -> Unfetched:
        """Return the mark of a missing tensor."""
        del item
        return Unfetched()


class ForbearingTensorDecomposer(TensorDecomposer):  # type: ignore[misc]
    """Decodes a message also when its tensors cannot be fetched; each is then an :class:`Unfetched`."""

    def download(self, *args: Any, **kwargs: Any) -> tuple[str | None, Any]:
        """Fetch the tensors of a message; NVFlare has logged the reason where that fails."""
        error, items = super().download(*args, **kwargs)
        return (None, _Nothing()) if error else (None, items)
