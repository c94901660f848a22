"""Devices with one link, three or four, on real packets: what is sent into a port arrives at another."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perftrend.measure import lock, specification
from perftrend.measure.specification import DriverFile, Specification
from perftrend.measure.testbed import Testbed
from perftrend.measurement import Trial
from tests.integration.quiet import interference

pytestmark = pytest.mark.packets

Require = Callable[[object, str], None]
Measure = Callable[[Specification, str, dict[str, str]], Trial]

ONE = (1000,)
THREE = (333, 333, 334)
FOUR = (250, 250, 250, 250)


def with_links(name: str, count: int) -> Specification:
    """Return a shipped testbed with another number of links."""
    spec = specification.load(name)
    wiring = DriverFile(driver=spec.wiring.driver, options={"link_count": str(count)})
    return spec.model_copy(update={"wiring": wiring})


@pytest.fixture
def measure(require: Require, request: pytest.FixtureRequest) -> Measure:
    """Give a function that makes a trial at a low rate, at which queues have room for all frames."""

    def trial(spec: Specification, frame: str, options: dict[str, str]) -> Trial:
        testbed = Testbed(spec)
        require(not testbed.unusable(), testbed.unusable())
        assert not testbed.lacks(options)
        with lock.hold(spec.lock, wait_s=600), testbed:
            if spec.generator.driver == "xdp":
                require(testbed.generator.version.endswith(" xdp"), "the kernel sends no XDP frames here")
            testbed.start_device(options)
            testbed.use(frame)
            # Frames of the flood that measured the generator may still be in the queues: it is repeated then.
            found = testbed.trials.measure(2_000, 0.5)
        if found.received != found.sent:
            # The generator does not wait long for a device that gets no time.
            request.getfixturevalue("require_quiet")(interference(found.invalid))
        return found

    return trial


@pytest.mark.parametrize("name", ["1n-veth", "1n-loopback"])
@pytest.mark.parametrize(("count", "options", "each"), [
    (1, {"forwarding": "ip4"}, ONE),
    (1, {"forwarding": "ip6"}, ONE),
    (1, {"forwarding": "l2xc"}, ONE),
    (1, {"forward_percent": "0"}, ONE),
    (3, {"forwarding": "ip4", "acl_rules": "20"}, THREE),
    (3, {"forwarding": "ip6"}, THREE),
    (3, {"forwarding": "l2xc"}, THREE),
    (4, {"forwarding": "ip6", "acl_rules": "20"}, FOUR),
    (4, {"forwarding": "ip4", "acl_rules": "20"}, FOUR),
    (4, {"forwarding": "l2"}, FOUR),
    (4, {"forwarding": "l2xc"}, FOUR),
    (4, {"forward_percent": "70"}, (350, 150, 350, 150)),
    (4, {"forward_percent": "100"}, (500, 0, 500, 0)),
])  # fmt: skip
def test_every_frame_of_each_link_comes_back(
    measure: Measure, name: str, count: int, options: dict[str, str], each: tuple[int, ...]
) -> None:
    trial = measure(with_links(name, count), "78x2+1518x1", options)

    assert (each, each) == (trial.sent_each, trial.received_each)


@pytest.mark.parametrize(("count", "options", "each"), [
    (1, {"forwarding": "ip4", "routes": "100"}, ONE),
    (1, {"forwarding": "ip6", "acl_rules": "20"}, ONE),
    (1, {"forwarding": "l2xc"}, ONE),
    (1, {"forwarding": "l2xc", "tunnel": "vxlan"}, ONE),
    (3, {"forwarding": "ip4", "routes": "1000"}, THREE),
    (3, {"forwarding": "l2xc"}, THREE),
    (4, {"forwarding": "ip4", "routes": "1000"}, FOUR),
    (4, {"forwarding": "ip6", "routes": "1000"}, FOUR),
    (4, {"forwarding": "l2", "forward_percent": "0"}, (0, 500, 0, 500)),
    # Not every kernel has VLANs.
    (4, {"forwarding": "l2xc"}, FOUR),
    (4, {"forwarding": "l2", "tunnel": "vxlan"}, FOUR),
])  # fmt: skip
def test_kernel_forwards_every_frame_of_each_link(
    measure: Measure, count: int, options: dict[str, str], each: tuple[int, ...]
) -> None:
    trial = measure(with_links("1n-kernel", count), "128B", options)

    assert (each, each) == (trial.sent_each, trial.received_each)


@pytest.mark.parametrize("name", ["1n-testpmd", "1n-ovs"])
@pytest.mark.parametrize(("count", "options", "each"), [
    (1, {"forwarding": "ip4"}, ONE),
    (1, {"forwarding": "l2xc"}, ONE),
    (3, {"forwarding": "ip4"}, THREE),
    (3, {"forwarding": "l2xc"}, THREE),
    (4, {"forwarding": "ip4"}, FOUR),
    (4, {"forwarding": "l2"}, FOUR),
    (4, {"forwarding": "l2", "vlan": "7"}, FOUR),
    (4, {"forwarding": "l2xc"}, FOUR),
])  # fmt: skip
def test_other_devices_forward_every_frame_of_each_link(
    measure: Measure, name: str, count: int, options: dict[str, str], each: tuple[int, ...]
) -> None:
    trial = measure(with_links(name, count), "128B", options)

    assert (each, each) == (trial.sent_each, trial.received_each)


@pytest.mark.parametrize(("count", "options", "each"), [
    (1, {"forwarding": "l2xc", "tunnel": "vxlan"}, ONE),
    (4, {"forwarding": "ip6", "routes": "1000"}, FOUR),
    (4, {"forwarding": "l2", "tunnel": "geneve"}, FOUR),
])  # fmt: skip
def test_switch_routes_and_ends_tunnels_of_each_link(
    measure: Measure, count: int, options: dict[str, str], each: tuple[int, ...]
) -> None:
    trial = measure(with_links("1n-ovs", count), "128B", options)

    assert (each, each) == (trial.sent_each, trial.received_each)


@pytest.mark.parametrize(("count", "each"), [(1, ONE), (3, THREE), (4, FOUR)])
def test_xdp_sends_into_each_link(measure: Measure, count: int, each: tuple[int, ...]) -> None:
    trial = measure(with_links("1n-xdp", count), "64B", {})

    assert (each, each) == (trial.sent_each, trial.received_each)


@pytest.mark.parametrize(("count", "number"), [(1, "one link"), (3, "3 links")])
@pytest.mark.parametrize("name", ["1n-veth", "1n-kernel"])
def test_bridge_needs_two_ports(name: str, count: int, number: str) -> None:
    testbed = Testbed(with_links(name, count))

    assert f"does not support forwarding=l2 with {number}" in testbed.lacks({"forwarding": "l2"})
