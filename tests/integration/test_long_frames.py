"""The longest frames through real devices, at a low rate, and back to short ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import pytest

from perftrend.measure import lock, specification
from perftrend.measure.embedded.drivers import EmbeddedGenerator
from perftrend.measure.interfaces import Node
from perftrend.measure.ssh import SshWiring
from perftrend.measure.testbed import Testbed
from perftrend.measure.wiring import VethPairs
from tests.integration.quiet import count_received

pytestmark = pytest.mark.packets

Require = Callable[[object, str], None]


@pytest.mark.parametrize(
    ("name", "longest", "options"),
    [
        ("1n-veth", "9000B", {"forwarding": "ip4"}),
        ("1n-veth", "9000B", {"forwarding": "l2"}),
        ("1n-kernel", "9000B", {"forwarding": "ip4"}),
        ("1n-kernel", "9000B", {"forwarding": "l2", "tunnel": "vxlan"}),
        ("1n-testpmd", "9000B", {"forwarding": "ip4"}),
        ("1n-testpmd", "9000B", {"forwarding": "l2", "vlan": "100"}),
        ("1n-ovs", "3000B", {"forwarding": "ip4"}),
    ],
)
def test_every_long_frame_comes_back_and_short_ones_after_it(
    require: Require, name: str, longest: str, options: dict[str, str]
) -> None:
    testbed = Testbed(specification.load(name))
    require(not testbed.unusable(), testbed.unusable())
    with lock.hold(testbed.spec.lock, wait_s=600), testbed:
        generator = cast(EmbeddedGenerator, testbed.generator)
        for frame in (longest, "128B"):
            assert "" == testbed.lacks(options, frame)
            testbed.start_device(options, frame)
            testbed.use(frame)

            assert 1000 == count_received(generator, 1000), frame


@pytest.mark.parametrize(("name", "longest"), [("1n-loopback", 1518), ("1n-ovs", 3000)])
def test_testbed_that_forwards_no_such_frames_names_its_limit(name: str, longest: int) -> None:
    reason = Testbed(specification.load(name)).lacks({}, "9000B")

    assert reason.startswith("frames of 9000 bytes (")
    assert reason.endswith(f" up to {longest})")


class NearbyNodes(SshWiring):
    """The nodes of veth pairs as those of a lab: only the way to them differs."""

    def __init__(self, pairs: VethPairs) -> None:
        nodes = {name: Node(options={"host": name}) for name in ("tg", "dut")}
        super().__init__(nodes, pairs.links)
        self.pairs = pairs

    def at_node(self, node: str, command: Sequence[str]) -> list[str]:
        return self.pairs.at_node(node, command)


@pytest.fixture
def pairs(require: Require) -> Iterator[VethPairs]:
    found = VethPairs()
    require(not found.unusable(), found.unusable())
    found.open()
    yield found
    found.close()


def test_interface_of_a_lab_with_a_small_mtu_is_named(pairs: VethPairs) -> None:
    lab = NearbyNodes(pairs)

    reason = "interface tg0 of node tg has the MTU 1500; ip link set dev tg0 mtu 8982"
    assert f"frames of 9000 bytes ({reason})" == lab.lacks(9000)
    pairs.carry(9000)
    assert "" == lab.lacks(9000)
