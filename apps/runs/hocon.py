"""Reading HOCON that others wrote: it includes files of its own folder, and nothing else of this machine or a network.

HOCON's parser fetches a URL, reads any file, and imports packages where a file says ``include``.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from ...transforms.errors import DataError, shown
from ...transforms.strict_files import JsonObject

_MOST_INCLUDED = 8

# The folder whose files may be included, None for none, and how deep includes are at present.
_FOLDER: ContextVar[Path | None] = ContextVar("_FOLDER", default=None)
_DEPTH: ContextVar[int] = ContextVar("_DEPTH", default=0)


def read_hocon(file: Path, folder: Path) -> JsonObject:
    """Return the keys and values of a HOCON file.

    Args:
        file: the file.
        folder: whose files it may include, with those of the folders in it.

    Raises:
        DataError: if it is not HOCON with keys and values, or includes anything else.
    """
    return _read(str(file), lambda parser: _counted(parser.ConfigFactory.read_file, str(file)), folder)


def parse_hocon_value(text: str) -> Any:
    """Return a value in HOCON, such as ``{_target_ = SegResNet, init_filters = 8}``; it includes nothing.

    Raises:
        DataError: if it is none.
    """
    return _read("the value", lambda parser: parser.ConfigFactory.parse_string(f"value = {text}"), None)["value"]


def _read(source: str, parse: Any, folder: Path | None) -> JsonObject:
    # Commands that read no job need no parser of HOCON.
    from pyhocon.exceptions import ConfigException  # noqa: PLC0415
    from pyparsing import ParseBaseException, ParserElement  # noqa: PLC0415
    from pyparsing.testing import pyparsing_test  # noqa: PLC0415

    unchanged_outside: Any = pyparsing_test.reset_pyparsing_context
    try:
        with unchanged_outside(), _within(folder):
            # Matplotlib makes every parser of the process remember what it tried, which doubles this one's time.
            ParserElement.disable_memoization()
            values: JsonObject = parse(_guarded_parser()).as_plain_ordered_dict()
    except _RefusedError as error:
        raise DataError(f"{source}: {error}") from error
    except (ConfigException, ParseBaseException, UnicodeDecodeError, AttributeError, RecursionError) as error:
        raise DataError(f"{source} is not HOCON with keys and values: {' '.join(str(error).split())}.") from error
    return values


class _RefusedError(ValueError):
    """The text includes what it may not; says what was found and what was expected."""


@contextmanager
def _within(folder: Path | None) -> Iterator[None]:
    tokens = _FOLDER.set(None if folder is None else folder.resolve()), _DEPTH.set(0)
    try:
        yield
    finally:
        _FOLDER.reset(tokens[0])
        _DEPTH.reset(tokens[1])


@cache
def _guarded_parser() -> Any:
    """A copy of pyhocon's parser, whose includes are checked; that of other users in the process stays as it is."""
    from importlib.util import find_spec, module_from_spec  # noqa: PLC0415

    spec = find_spec("pyhocon.config_parser")
    assert spec is not None, "pyhocon comes with NVFlare"
    assert spec.loader is not None, "pyhocon is written in Python"
    parser: Any = module_from_spec(spec)
    spec.loader.exec_module(parser)
    read_file = parser.ConfigFactory.parse_file

    def included(filename: str, **options: Any) -> Any:
        _check_included(filename, _DEPTH.get())
        return _counted(read_file, filename, **options)

    # The parser calls the first two for includes.
    replaced: Mapping[str, Any] = {"parse_file": included, "parse_URL": _refuse_url, "read_file": read_file}
    for name, function in replaced.items():
        setattr(parser.ConfigFactory, name, staticmethod(function))
    parser.ConfigParser.resolve_package_path = staticmethod(_refuse_package)
    parser.glob, parser.urlopen = _refuse_pattern, _refuse_url
    return parser


def _counted(read: Callable[..., Any], filename: str, **options: Any) -> Any:
    """Read a file, one level of includes further down."""
    token = _DEPTH.set(_DEPTH.get() + 1)
    try:
        return read(filename, **options)
    finally:
        _DEPTH.reset(token)


def _check_included(name: str, depth: int) -> None:
    """Raises _RefusedError unless a file lies in the folder, links followed."""
    folder, file = _FOLDER.get(), Path(name).resolve()
    if folder is None or not file.is_relative_to(folder):
        expected = "no include" if folder is None else f"files in {folder} alone"
        raise _RefusedError(f"found an include of {shown(name)}; expected {expected}. Copy what it says into the file.")
    if depth > _MOST_INCLUDED:
        raise _RefusedError(f"found includes of includes, more than {_MOST_INCLUDED} deep; expected fewer.")
    if file.exists() and not file.is_file():
        raise _RefusedError(f"found an include of {shown(name)}; expected a file.")


def _refuse_url(url: str, *_: Any, **__: Any) -> NoReturn:
    raise _RefusedError(f"found an include of the URL {shown(url)}; expected files of the folder alone. {_COPY}")


def _refuse_package(path: str) -> NoReturn:
    raise _RefusedError(f"found an include of the package {shown(path)}; expected files of the folder alone. {_COPY}")


def _refuse_pattern(pattern: str, *_: Any, **__: Any) -> NoReturn:
    raise _RefusedError(f"found an include of {shown(pattern)}; expected the name of one file, without * and ?.")


_COPY = "Copy what it says into the file."
