"""A PostgreSQL server that vanishes without a word, in a network of its own, which goes with the process.

``unshare --net python -m tests.integration.servers.vanishing [?OPTIONS]`` uses a store, lets the network lose
every packet, and prints as JSON the errors of a new query and of one that waited for its answer. Then the
network is back, and it prints whether the store can be read. OPTIONS are added to the store's address.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg

from perftrend.errors import StoreError
from perftrend.store import Store
from perftrend.store.connection import engine_of, read_transaction
from tests.integration.servers import postgresql

LOSE = "table inet lost {\nchain input {\ntype filter hook input priority 0; policy drop;\n}\n}\n"

WAITING = "SELECT pg_sleep(600)"


def main(options: str) -> None:
    """Print the errors."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with postgresql.running() as server, ThreadPoolExecutor(2) as pool:
        place = server.database() + options
        engine = engine_of(place)

        def wait() -> None:
            with read_transaction(engine) as connection:
                connection.exec_driver_sql(WAITING)

        with Store.open(place) as store:
            waiting = pool.submit(error_of, wait)
            until_the_server_works_on(WAITING, server.url())
            subprocess.run(["nft", "-f", "-"], input=LOSE, text=True, check=True)
            asking = pool.submit(error_of, lambda: store.runs("2n-clx"))
            outcome: dict[str, object] = {"waits": waiting.result(), "asks": asking.result()}
            subprocess.run(["nft", "delete", "table", "inet", "lost"], check=True)
            outcome["back"] = store.runs("2n-clx")
            print(json.dumps(outcome))  # noqa: T201 - the test reads this
        engine.dispose()


def error_of(query: Callable[[], object]) -> str:
    """Return the error of the store; empty without one."""
    try:
        query()
    except StoreError as error:
        return str(error)
    return ""


def until_the_server_works_on(query: str, address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        working = "SELECT FROM pg_stat_activity WHERE state = 'active' AND query = %s"
        while not connection.execute(working, [query]).rowcount:
            time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
