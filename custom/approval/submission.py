"""Reading a job as it was submitted: an archive, of which nothing is unpacked before it is known to be tolerated."""

import io
import re
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from .configuration import (
    CLIENT_CONFIG,
    SERVER_CONFIG,
    JobConfiguration,
    JobRefusedError,
    read_strict_json,
)

# A job of fifty sites with all its settings takes some kilobytes.
_LARGEST_FILE = 256 * 1024
_LARGEST_ARCHIVE = 1024 * 1024
_MOST_ENTRIES = 32
# The methods of which Python's reader unpacks no more than it is asked for.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# The researcher's signatures and certificate, which NVFlare adds to folders.
_SIGNATURES = (".__nvfl_sig.json", ".__nvfl_submitter.crt")
_CONFIG_FOLDER = "config"
_META = "meta.json"
# What a researcher says about a job; NVFlare adds its own keys later.
_META_KEYS = frozenset({"name", "min_clients", "mandatory_clients", "deploy_map", "fedannot"})
# What would change where or under which policy a job runs at a site.
_FORBIDDEN_META = ("scope", "launcher_spec", "resource_spec", "byoc")
_APP_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Of jobs and sites; @ALL stands for all sites.
_NAME = re.compile(r"[A-Za-z0-9@][A-Za-z0-9_.-]{0,99}")
_SERVER, _ALL_SITES = "server", "@all"


class OutdatedJobError(JobRefusedError):
    """A job was not made by `fedannot deploy job`, or by that of an earlier version; the text says to make it again."""

    def __init__(self, found: str) -> None:
        super().__init__(f"{found} Make the job with `fedannot deploy job`.")


def read_app(archive: bytes) -> JobConfiguration:
    """Read a job's app as it is sent to a participant.

    Raises:
        JobRefusedError: if it holds anything but two configurations, and NVFlare's signatures.
    """
    return _read_app(_files(io.BytesIO(archive)), "")


def read_job(archive: bytes | Path, folder: str) -> JobConfiguration:
    """Read a job as a researcher submits it.

    Args:
        archive: the archive, or its file.
        folder: the job's folder in it.

    Raises:
        JobRefusedError: if it holds anything but what the job says about itself and one app, or says too much.
    """
    files = _files(io.BytesIO(archive) if isinstance(archive, bytes) else archive)
    prefix = f"{folder}/"
    if outside := [name for name in files if not name.startswith(prefix)]:
        raise JobRefusedError(f"The job holds {_shown(outside)} outside its folder.")
    inside = {name.removeprefix(prefix): content for name, content in files.items()}
    if _META not in inside:
        raise OutdatedJobError(f"The job has no {_META}.")
    meta = read_strict_json(_META, inside.pop(_META))
    app = _checked_meta(meta)
    for name in _SIGNATURES:
        inside.pop(name, None)
    if others := [name for name in inside if not name.startswith(f"{app}/")]:
        raise JobRefusedError(f"The job holds {_shown(others)}; expected {_META} and the app {app!r} alone.")
    files_of_app = {name.removeprefix(f"{app}/"): content for name, content in inside.items()}
    return replace(_read_app(files_of_app, f"{app}/"), sites=_named_sites(meta["deploy_map"]))


def check_meta(meta: Mapping[str, Any]) -> frozenset[str] | None:
    """Check what a server says about a job that it deploys.

    Returns:
        The sites that the job names; None for all that are there when it starts.

    Raises:
        JobRefusedError: if the job names a scope, a launcher or resources, carries code, or names no sites.
    """
    if not isinstance(meta, Mapping):
        raise JobRefusedError("The server says nothing of the job.")
    if result := [key for key in _FORBIDDEN_META if meta.get(key)]:
        raise JobRefusedError(f"The job sets {', '.join(result)}, which is the site's to decide.")
    deploy_map = meta.get("deploy_map")
    if not isinstance(deploy_map, Mapping) or not deploy_map or not _are_names(*deploy_map.values()):
        raise JobRefusedError("The server does not say which sites take part; expected their names in deploy_map.")
    return _named_sites(deploy_map)


def _named_sites(deploy_map: Mapping[str, list[str]]) -> frozenset[str] | None:
    """The sites in lists of names; NVFlare does not mind how it is written that all are meant."""
    names = {name for named in deploy_map.values() for name in named}
    if _ALL_SITES in {name.lower() for name in names}:
        return None
    return frozenset(names - {_SERVER})


def _checked_meta(meta: Any) -> str:
    """Return the name of the only app."""
    if not isinstance(meta, dict):
        raise JobRefusedError(f"{_META}: expected keys and values.")
    if unknown := sorted(set(meta) - _META_KEYS):
        raise JobRefusedError(f"{_META}: found {_shown(unknown)}; expected {sorted(_META_KEYS)}.")
    apps = meta["deploy_map"] if isinstance(meta.get("deploy_map"), dict) else {}
    if len(apps) != 1 or not _APP_NAME.fullmatch(next(iter(apps))) or not _are_names(*apps.values()):
        raise JobRefusedError(f"{_META}: expected one app with the names of server and sites in deploy_map.")
    if not _are_names([meta.get("name")]) or not _are_names(meta.get("mandatory_clients") or []):
        raise JobRefusedError(f"{_META}: expected a name, and names of sites in mandatory_clients.")
    # NVFlare keeps what it can turn into a number as it is, and stumbles over it whenever it schedules jobs.
    if type(meta.get("min_clients", 1)) is not int or meta.get("min_clients", 1) < 1:
        raise JobRefusedError(f"{_META}: expected a whole number from 1 up as min_clients.")
    return str(next(iter(apps)))


def _are_names(*lists: Any) -> bool:
    return all(
        isinstance(names, list) and all(isinstance(name, str) and _NAME.fullmatch(name) for name in names)
        for names in lists
    )


def _read_app(files: Mapping[str, bytes], where: str) -> JobConfiguration:
    expected = [f"{_CONFIG_FOLDER}/{name}" for name in (SERVER_CONFIG, CLIENT_CONFIG)]
    allowed = {*expected, *_SIGNATURES, *(f"{_CONFIG_FOLDER}/{name}" for name in _SIGNATURES)}
    if unexpected := sorted(set(files) - allowed):
        raise OutdatedJobError(
            f"The job holds {_shown([where + name for name in unexpected])}; expected {' and '.join(expected)} alone, "
            "as plain JSON."
        )
    if missing := [name for name in expected if name not in files]:
        raise OutdatedJobError(f"The job lacks {_shown(missing)}.")
    return JobConfiguration.of_texts(files[expected[0]], files[expected[1]])


def _files(source: io.BytesIO | Path) -> dict[str, bytes]:
    """Return the content of an archive's files by their names; a folder is there for the files in it alone."""
    files: dict[str, bytes] = {}
    folders: set[str] = set()
    try:
        length = source.stat().st_size if isinstance(source, Path) else len(source.getbuffer())
        if length > _LARGEST_ARCHIVE:
            raise JobRefusedError(f"The job's archive has more than {_LARGEST_ARCHIVE // 1024} KiB.")
        with zipfile.ZipFile(source) as archive:
            entries = archive.infolist()
            if len(entries) > _MOST_ENTRIES:
                raise JobRefusedError(f"The job holds {len(entries)} files; expected at most {_MOST_ENTRIES}.")
            for entry in entries:
                name = entry.filename
                if name in files:
                    raise JobRefusedError(f"The job holds {_shown([name])} twice.")
                if name.endswith("/") and not entry.file_size:
                    folders.add(name.rstrip("/"))
                    continue
                files[name] = _content(archive, entry)
    except (OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
        if isinstance(error, JobRefusedError):
            raise
        raise JobRefusedError(f"The job's archive cannot be read ({type(error).__name__}).") from error
    # NVFlare takes a job for one with code if it has a folder for it, be it empty.
    if empty := folders - {str(parent) for name in files for parent in PurePosixPath(name).parents}:
        raise JobRefusedError(f"The job holds the folder {_shown(sorted(empty))}, with no file of a job in it.")
    return files


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    if entry.compress_type not in _METHODS:
        raise JobRefusedError(f"{_shown([entry.filename])} is packed by another method than zip's typical one.")
    # What an archive says about sizes need not be true.
    with archive.open(entry) as file:
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise JobRefusedError(f"{_shown([entry.filename])} has more than {_LARGEST_FILE // 1024} KiB.")
    return content


def _shown(names: list[str]) -> str:
    """At most three names, in a form that a log or a terminal shows as it is."""
    shown = ", ".join(ascii(name[:80]) for name in names[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")
