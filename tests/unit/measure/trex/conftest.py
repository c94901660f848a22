"""A TRex server, and a generator that uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from typing_extensions import override

from perftrend.measure.interfaces import Link, Node, Port, Target
from perftrend.measure.traffic import TrafficProfile
from perftrend.measure.trex.generator import PUBLISHER_PORT, REQUEST_PORT, TrexGenerator
from perftrend.measure.wiring import NoWiring
from tests.doubles.trex import TrexServer, serving


def link(number: int) -> Link:
    return Link(Port(mac=f"02:00:00:00:0c:0{number}"), Port(mac=f"02:00:00:00:0d:0{number}"))


LINKS = [link(0), link(1)]


class LabWiring(NoWiring):
    """The server's ports, as if they were forwarded."""

    def __init__(self, server: TrexServer, links: list[Link]) -> None:
        super().__init__(None, links)
        self._ports = {REQUEST_PORT: server.request_port, PUBLISHER_PORT: server.publisher_port}

    @override
    def forward_generator(self, target: Target) -> Target:
        assert isinstance(target, int)
        return self._ports[target]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[TrexServer]:
    with serving() as server:
        for module in ("burst", "generator"):
            monkeypatch.setattr(f"perftrend.measure.trex.{module}.time", server.clock)
        yield server


Connect = Callable[..., TrexGenerator]


@pytest.fixture
def connect(server: TrexServer) -> Iterator[Connect]:
    """Give a function that opens a generator, with options and the links of the testbed."""
    opened = []

    def connected(links: list[Link] = LINKS, **options: str) -> TrexGenerator:
        generator = TrexGenerator(LabWiring(server, links), Node(), options)
        opened.append(generator)
        generator.open()
        return generator

    yield connected
    for generator in opened:
        generator.close()


@pytest.fixture
def generator(connect: Connect) -> TrexGenerator:
    """Give an open generator that sends frames of 64 bytes through a router."""
    generator = connect()
    generator.use(TrafficProfile.parse("64B", {}))
    return generator
