from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.servers import gerrit, hudson, java


@pytest.fixture(scope="module")
def jenkins_server(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]
) -> Iterator[hudson.Server]:
    """Run a server like Jenkins for a module, so that it does not disturb who measures packets."""
    fetch(hudson.fetched, require)
    with hudson.running(tmp_path_factory.mktemp("jenkins")) as server:
        yield server


@pytest.fixture(scope="module")
def gerrit_server(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]
) -> Iterator[gerrit.Server]:
    """Run a Gerrit for a module."""
    fetch(gerrit.fetched, require)
    with gerrit.running(tmp_path_factory.mktemp("gerrit")) as server:
        yield server


def fetch(fetched: Callable[[], object], require: Callable[[object, str], None]) -> None:
    """Skip the test where the server cannot be had.

    Before it starts, so that a fault of the server itself is not taken for something lacking.
    """
    try:
        java.program("java")
        fetched()
    except java.LackingError as lacking:
        require(condition=False, reason=str(lacking))
