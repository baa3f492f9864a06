"""Is a participant ready to join? What is wrong with its kit, its data and its machine, and what to do about it."""

from collections.abc import Callable, Iterator
from pathlib import Path

from .check_points import Point, State
from .identity_checks import check_addresses, check_certificate
from .kit import Kit
from .machine_checks import (
    check_data,
    check_disk,
    check_gpu,
    check_prepared_images,
    check_python,
    check_threads,
    check_versions,
)
from .policy_checks import check_minimum, check_policies
from .private_files import check_kits_files, check_other_folder


def _check_files(kit: Kit) -> Iterator[Point]:
    yield check_kits_files(kit.folder)


_CHECKS: tuple[Callable[[Kit], Iterator[Point]], ...] = (
    check_versions,
    check_python,
    check_certificate,
    _check_files,
    check_addresses,
    check_policies,
    check_minimum,
    check_data,
    check_prepared_images,
    check_threads,
    check_gpu,
    check_disk,
)
_OF_RELAYS = (check_versions, check_python, check_certificate, _check_files, check_addresses, check_disk)


def check_kit(folder: Path) -> list[Point]:
    """Check a startup kit and the machine that it lies on; nothing is changed, and nothing leaves the site.

    Of an account's kit, and of the folder that ``nvflare provision`` wrote, it is checked who can read the keys.

    Args:
        folder: the kit of the server, of a relay or of a site, or one of these.

    Raises:
        KitError: if it is none of them.
    """
    if (points := check_other_folder(folder)) is not None:
        return points
    kit = Kit.open(folder)
    checks = _OF_RELAYS if kit.role == "relay" else _CHECKS
    return [point for check in checks for point in check(kit)]


def is_ready(points: list[Point]) -> bool:
    """Return whether the participant can join."""
    return all(point.state != State.PROBLEM for point in points)
