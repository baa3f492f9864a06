import os
import socket
import sys

import pytest

from fedannot.apps.audit import peer_account
from fedannot.apps.audit.peer_account import account_at


@pytest.mark.skipif(not peer_account._TABLES[0].exists(), reason="Linux says it")
@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1"])
def test_a_connection_is_of_the_account_that_made_it(address):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as client:
            client.connect((address, port))
            accepted, (_, client_port) = server.accept()
            with accepted:
                assert account_at(client_port, port) == os.geteuid()
                assert account_at(client_port, client_port) is None


def test_the_row_of_the_other_end_is_taken(tmp_path, monkeypatch):
    """Both ends are in the table; the server's own is not asked for."""
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
    rest = "01 00000000:00000000 00:00000000 00000000"
    here = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), sys.byteorder):08X}"
    (tmp_path / "tcp").write_text(
        f"{head}\n"
        f"   0: {here}:1F90 {here}:C350 {rest}  1000        0 11 1\n"
        f"   1: {here}:C350 {here}:1F90 {rest}  1001        0 12 1\n"
    )
    monkeypatch.setattr(peer_account, "_TABLES", (tmp_path / "none", tmp_path / "tcp"))
    assert account_at(0xC350, 0x1F90) == 1001
    assert account_at(0x1F90, 0xC350) == 1000
    assert account_at(0x1F91, 0xC350) is None
