"""A PostgreSQL server that vanishes without a word, in a network of its own, which goes with the process.

``unshare --net python -m tests.integration.servers.vanishing`` uses a store, lets the network lose every
packet, and prints as JSON what became of who asks then, and of who was waiting for an answer: the error, and
after how many seconds it came. In the end the network is back, and it tells whether the store is.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from perftrend.errors import StoreError
from perftrend.store import Store
from perftrend.store.connection import engine_of, reading
from tests.integration.servers import postgresql

LOSE = "table inet lost {\nchain input {\ntype filter hook input priority 0; policy drop;\n}\n}\n"


def main() -> None:
    """Print what became of them."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with postgresql.running() as server, ThreadPoolExecutor(2) as pool:
        place = server.database()
        engine = engine_of(place)

        def wait() -> None:
            with reading(engine) as connection:
                connection.exec_driver_sql("SELECT pg_sleep(5)")

        with Store.open(place) as store:
            waiting = pool.submit(told, wait)
            # Now the server has the question.
            time.sleep(2)
            subprocess.run(["nft", "-f", "-"], input=LOSE, text=True, check=True)
            asking = pool.submit(told, lambda: store.runs("2n-clx"))
            became: dict[str, object] = {"waits": waiting.result(), "asks": asking.result()}
            subprocess.run(["nft", "delete", "table", "inet", "lost"], check=True)
            became["back"] = store.runs("2n-clx")
            print(json.dumps(became))  # noqa: T201 - who started it reads this
        engine.dispose()


def told(asks: Callable[[], object]) -> tuple[str, float]:
    """Return an error of the store, and after how many seconds it came; without one, it is empty."""
    began = time.monotonic()
    try:
        asks()
    except StoreError as error:
        return str(error), time.monotonic() - began
    return "", time.monotonic() - began


if __name__ == "__main__":
    main()
