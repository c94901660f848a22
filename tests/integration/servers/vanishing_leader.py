"""A machine that vanishes while it serves a store, in a network of its own, which goes with the process.

``unshare --net python -m tests.integration.servers.vanishing_leader`` ends when another process serves.
"""

from __future__ import annotations

import socket
import subprocess
import time

from perftrend.store import Store
from perftrend.store.claims import Leadership
from tests.integration.servers import postgresql

LOSE = """
table inet lost {{
  chain input {{
    type filter hook input priority 0
    tcp sport {port} drop
    tcp dport {port} drop
  }}
}}
"""


def main() -> None:
    """Lose the network of the process that serves, and wait until the other one does."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with postgresql.running() as server:
        place = server.database()
        with Store.open(place) as first, Store.open(place) as second:
            leader, standby = first.leadership("listener"), second.leadership("listener")
            assert leader
            assert standby
            assert (True, False) == (leader.is_held(), standby.is_held())
            # The response is probably not confirmed yet. TCP then sends it again instead of keepalives.
            assert leader.is_held()
            lose = LOSE.format(port=port_of(leader))
            subprocess.run(["nft", "-f", "-"], input=lose, text=True, check=True)
            while not standby.is_held():
                time.sleep(0.5)


def port_of(leadership: Leadership) -> int:
    assert leadership._connection
    driver = leadership._connection.connection.driver_connection
    assert driver
    with socket.socket(fileno=driver.fileno()) as tcp:
        port: int = tcp.getsockname()[1]
        tcp.detach()
    return port


if __name__ == "__main__":
    main()
