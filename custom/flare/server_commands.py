"""What accounts may ask of the server's process: NVFlare's commands that ask for no right are the operator's."""

from typing import Any

from nvflare.fuel.hci.conn import Connection
from nvflare.fuel.hci.proto import InternalCommands, MetaStatusValue, ReplyKeyword, make_meta
from nvflare.fuel.hci.server.authz import AuthzFilter
from nvflare.fuel.hci.server.constants import ConnProps

_OPERATOR = "project_admin"
# Modules of NVFlare's whose commands everybody needs: the list of commands, and login.
_OPEN_MODULES = frozenset({"", "login"})
_OPEN_COMMANDS = frozenset({InternalCommands.CHECK_SESSION})


class OperatorsCommands(AuthzFilter):  # type: ignore[misc]
    """Refuses accounts but the project administrator's what NVFlare asks no right for.

    Such commands test the network with messages of any number and size, and tell the configuration, the processes and
    the sessions of server and sites. Whatever else asks for no right in a later NVFlare is refused, too.
    """

    def pre_command(self, conn: Connection, args: list[str]) -> bool:
        """Return whether a command goes on."""
        entry: Any = conn.get_prop(ConnProps.CMD_ENTRY)
        role = conn.get_prop(ConnProps.USER_ROLE, "")
        if entry is not None and not entry.authz_func and role != _OPERATOR and not _is_open(entry):
            said = f"This action is {ReplyKeyword.NOT_AUTHORIZED}"
            conn.append_error(said, meta=make_meta(MetaStatusValue.NOT_AUTHORIZED, ReplyKeyword.NOT_AUTHORIZED))
            return False
        return bool(super().pre_command(conn, args))


def _is_open(entry: Any) -> bool:
    return entry.scope.name in _OPEN_MODULES or entry.name in _OPEN_COMMANDS
