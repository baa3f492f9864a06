"""Salted fingerprints of images and groups: equal ones can be found among hospitals that share only the salt.

A fingerprint is an HMAC-SHA256 keyed with the salt. Without the salt it says nothing; who has the salt can ask whether
an image at hand, or a group whose name can be guessed, is among those of a file. Both stay among the hospitals.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from ...custom.data.datalist import SECTIONS
from ...custom.data.whole_files import write_text
from ...custom.strict_model import StrictModel
from ...transforms.errors import DataError, describe_validation_error
from ...transforms.strict_files import read_json
from .facts import CaseFacts, SiteFacts

MIN_SALT = 8

_Fingerprint = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class ListFingerprints(StrictModel):
    """The fingerprints of one list of a site, sorted, so that their order says nothing.

    Args:
        images: of the images that are not constant.
        groups: of source and group, of cases that have both.
    """

    images: tuple[_Fingerprint, ...]
    groups: tuple[_Fingerprint, ...]


class SiteFingerprints(StrictModel):
    """The fingerprints of a site.

    Args:
        site: its name.
        lists: name of the list → its fingerprints.
    """

    site: str
    lists: dict[Literal["training", "validation", "testing"], ListFingerprints]


class FingerprintFile(StrictModel):
    """The content of ``fingerprints.json``: what a hospital gives away to learn about overlap; no name of a file.

    Args:
        content: says what the file is.
        version: of its form.
        salt_check: the same for files of the same salt.
        sites: a hospital's site, or the sites of a federation.
    """

    content: Literal["fedannot fingerprints"] = "fedannot fingerprints"
    version: Literal[1] = 1
    salt_check: _Fingerprint
    sites: Annotated[tuple[SiteFingerprints, ...], Field(min_length=1)]


def fingerprint(salt: bytes, kind: str, text: str) -> str:
    """Return the HMAC-SHA256, in hexadecimal, of a text of some kind, such as an image's digest."""
    return hmac.new(salt, f"{kind}:{text}".encode(), hashlib.sha256).hexdigest()


def image_fingerprints(cases: Iterable[CaseFacts], salt: bytes) -> dict[str, list[str]]:
    """Return fingerprint → names of the images; constant ones are left out, they are alike whatever they show."""
    result: dict[str, list[str]] = {}
    for case in cases:
        if case.image is not None and not case.image.is_constant:
            result.setdefault(fingerprint(salt, "image", case.image.digest), []).append(case.name)
    return result


def group_fingerprints(cases: Iterable[CaseFacts], salt: bytes, *, need_source: bool) -> dict[str, list[str]]:
    """Return fingerprint of source and group → names of the images.

    Args:
        cases: the cases; those without a group are left out.
        salt: the key.
        need_source: leave out groups without a source, too: hospitals number their patients alike.
    """
    result: dict[str, list[str]] = {}
    for case in cases:
        if case.group is not None and (case.group[0] is not None or not need_source):
            result.setdefault(fingerprint(salt, "group", json.dumps(case.group)), []).append(case.name)
    return result


def write_fingerprints(file: Path, sites: Sequence[SiteFacts], salt: str) -> None:
    """Write the fingerprints of sites that may be shown to who has the salt, too.

    Raises:
        DataError: if the salt is too short to be a secret.
    """
    key = salt_key(salt)
    content = FingerprintFile(
        salt_check=fingerprint(key, "check", "fedannot"),
        sites=tuple(SiteFingerprints(site=site.site, lists=_lists(site, key)) for site in sites),
    )
    write_text(file, json.dumps(content.model_dump(mode="json"), indent=1) + "\n")


def read_fingerprints(file: Path) -> FingerprintFile:
    """Read a file of fingerprints.

    Raises:
        DataError: if it is missing or holds something else.
    """
    content = read_json(file, "fingerprints, as `fedannot data check --salt` writes them")
    if not isinstance(content, Mapping):
        raise DataError(f"{file}: found no fingerprints; expected what `fedannot data check --salt` writes.")
    try:
        return FingerprintFile.model_validate(content)
    except ValidationError as error:
        raise DataError(describe_validation_error(error, source=str(file), model=FingerprintFile)) from error


def read_salt(file: Path) -> str:
    """Return the salt in a file, without the line break at its end.

    Raises:
        DataError: if the file cannot be read, or has several lines.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read; expected a text file with the secret of the hospitals.") from error
    if len(lines) > 1:
        raise DataError(f"{file}: found {len(lines)} lines; expected one, the secret of the hospitals.")
    return "".join(lines)


def salt_key(salt: str) -> bytes:
    """Return the salt as a key.

    Raises:
        DataError: if it is too short to be a secret.
    """
    if len(salt) < MIN_SALT:
        raise DataError(
            f"Salt: found {len(salt)} characters, expected at least {MIN_SALT}: a secret that the hospitals agree on."
        )
    return salt.encode()


def _lists(site: SiteFacts, key: bytes) -> dict[Literal["training", "validation", "testing"], ListFingerprints]:
    lists = {}
    for section in SECTIONS:
        if cases := site.section(section):
            images, groups = image_fingerprints(cases, key), group_fingerprints(cases, key, need_source=True)
            lists[section] = ListFingerprints(images=tuple(sorted(images)), groups=tuple(sorted(groups)))
    return lists  # type: ignore[return-value]  # SECTIONS are these literals
