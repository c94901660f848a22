"""An OpenID Connect provider as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

ALICE = {"sub": "1", "preferred_username": "alice", "groups": ["perf"]}
ADA = {"sub": "2", "preferred_username": "ada", "groups": ["perf", "ops"]}
OTTO = {"sub": "3", "preferred_username": "otto"}

# It has its own process because it is of another mind about deprecated modules than our tests are.
_PROGRAM = """
import json, sys
from oidc_provider_mock import User, run_server_in_thread
port, people = json.loads(sys.argv[1])
users = [User(sub=claims.pop("sub"), claims=claims) for claims in people]
with run_server_in_thread(port=port, require_nonce=True, user_claims=users) as server:
    print(server.server_port, flush=True)
    sys.stdin.read()
"""


@contextmanager
def running(*people: Mapping[str, Any], port: int = 0) -> Iterator[str]:
    """Run a provider with keys of its own, at which people sign in by one click; give its address.

    :param port: where it is served; 0 takes a free one.
    """
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _PROGRAM, json.dumps([port, people])],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://localhost:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()
            process.wait(120)
