"""A participant's prepared copies of images: where they lie, how many, and their removal."""

from dataclasses import dataclass
from pathlib import Path

from ...custom.data.store_folder import StoreFolder, StoreLimits, StoreUsage
from ...custom.data.store_location import locate_store
from ..deployment.kit import Kit
from ..reports.html import html_paragraphs

_GIB, _MIB, _DAY = 2**30, 2**20, 86400.0


@dataclass(frozen=True)
class PreparedImages:
    """Prepared copies of images, which runs and rounds on the same data share; nothing of them leaves this machine.

    Attributes:
        folder: where they lie.
        named_by: what says so: a variable, a kit's file, or that it is the user's cache.
        usage: how much they are.
        limits: how much they may be, and how long they stay.
    """

    folder: Path
    named_by: str
    usage: StoreUsage
    limits: StoreLimits

    def clear(self) -> "PreparedImages":
        """Remove all of them, and nothing else; return what is left.

        What a running process is preparing stays until it ends.

        Raises:
            DataError: if the folder holds something else.
        """
        store = StoreFolder.existing(self.folder)
        left = StoreUsage() if store is None else store.clear()
        return PreparedImages(self.folder, self.named_by, left, self.limits)

    def __str__(self) -> str:
        gib, days = self.limits.max_bytes / _GIB, self.limits.max_age / _DAY
        lines = [
            f"Prepared images: {self.folder} ({self.named_by})",
            f"Held: {_lists(self.usage.packs)}, {_size(self.usage.num_bytes)}",
            f"Limits: {gib:g} GiB, {days:g} days since the last use",
        ]
        if self.usage.being_prepared:
            lines.append(f"Being prepared by running processes: {_lists(self.usage.being_prepared)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_paragraphs(*str(self).splitlines())


def prepared_images(kit: str | Path | None = None) -> PreparedImages:
    """Say where prepared copies of images lie and how many; nothing is changed but what is too old.

    Args:
        kit: the startup kit of the server or of a site; None for the runs of this user.

    Raises:
        KitError: if it is no such kit.
        DataError: if what names the folder cannot be used, or the folder holds something else.

    >>> from fedannot.apps import prepared_images
    >>> prepared_images().clear().usage.packs
    0
    """
    location = locate_store(None if kit is None else Kit.open(Path(kit)).local)
    root, limits = location.store.root, location.store.limits
    store = StoreFolder.existing(root)
    if store is not None:
        store.tidy_if_due(limits)
    return PreparedImages(root, location.named_by, StoreUsage() if store is None else store.usage(), limits)


def _size(num_bytes: int) -> str:
    return f"{num_bytes / _GIB:.1f} GiB" if num_bytes >= _GIB else f"{num_bytes / _MIB:.1f} MiB"


def _lists(number: int) -> str:
    return f"{number} list{'' if number == 1 else 's'} of cases"
