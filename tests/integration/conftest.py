from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.servers import hudson


@pytest.fixture(scope="session")
def jenkins_server(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]
) -> Iterator[hudson.Server]:
    """Run a server like Jenkins for the whole session: take job names that no other test has."""
    try:
        # Before it starts, so that a fault of the server itself is not taken for something lacking.
        hudson.program("java")
        hudson.fetched()
    except hudson.LackingError as lacking:
        require(condition=False, reason=str(lacking))
    with hudson.running(tmp_path_factory.mktemp("jenkins")) as server:
        yield server
