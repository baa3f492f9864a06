"""Whose program is at the other end of a connection within this machine: Linux says it of every socket."""

import socket
import sys
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL_ADDRESS, _REMOTE_ADDRESS, _USER = 1, 2, 7


def account_at(port: int, server_port: int) -> int | None:
    """Return the user id of the program that has connected to a port of the loopback address.

    Args:
        port: the program's end of the connection.
        server_port: this end.

    Returns:
        The user id; 0 also of a socket that its program has closed; None where it is not known, as on all but Linux.

    Example:
        >>> account_at(1, 2) is None
        True
    """
    # As the tables write it, also behind what maps it into version 6.
    here = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), sys.byteorder):08X}"
    ends = f"{here}:{port:04X}", f"{here}:{server_port:04X}"
    for table in _TABLES:
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except (OSError, UnicodeDecodeError):
            continue
        for fields in map(str.split, lines):
            if len(fields) <= _USER:
                continue
            if fields[_LOCAL_ADDRESS].endswith(ends[0]) and fields[_REMOTE_ADDRESS].endswith(ends[1]):
                return int(fields[_USER])
    return None
