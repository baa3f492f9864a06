"""The process's locale, which readers of DICOM set to another one."""

import locale
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_locale() -> Iterator[None]:
    """Set the locale back at the end: GDCM leaves "C", in which other libraries decode files as ASCII."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        yield
    finally:
        locale.setlocale(locale.LC_ALL, before)
