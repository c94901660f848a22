"""The traffic of a test, parsed from the names of its frames and its options."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SettingsError
from perftrend.measure.traffic import LINK_COUNTS, FrameProfile, TrafficProfile, opposite, vlan_of_link


@pytest.mark.parametrize(("name", "mean"), [
    ("64B", 64), ("128b", 128), ("1518B", 1518), ("9000B", 9000), ("imix", 4246 / 12),
    ("64x7+570x4+1518x1", 4246 / 12), ("64X1+9000x1", 4532),
])  # fmt: skip
def test_profile_has_the_mean_that_its_name_promises(name: str, mean: float) -> None:
    assert mean == pytest.approx(FrameProfile.parse(name).mean_bytes)


def test_imix_is_seven_to_four_to_one() -> None:
    assert Counter({64: 7, 570: 4, 1518: 1}) == Counter(FrameProfile.parse("IMIX").sizes)


@pytest.mark.parametrize(("wrong", "meant"), [("64", "64B"), ("1518b ", "1518B"), ("IMX", "IMIX")])
def test_unknown_profile_names_the_nearest(wrong: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=f"frame '{wrong}' is unknown; did you mean '{meant}'"):
        FrameProfile.parse(wrong)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("63B", "'63B': a frame has from 64 to 9000 bytes"),
        ("9001B", "'9001B': a frame has from 64 to 9000 bytes"),
        ("99999B", "a frame has from 64 to 9000 bytes"),
        ("64x0+70x1", "each length must occur at least once, and all at most 24 times"),
        ("64x20+70x5", "all at most 24 times"),
        ("64x7+20x1", "a frame has from 64 to 9000 bytes"),
        ("64x7", "is unknown"),
        ("64x7+", "is unknown"),
        ("", "is unknown"),
        ("64B\n", "is unknown"),
    ],
)
def test_frame_that_cannot_be_is_refused(wrong: str, told: str) -> None:
    with pytest.raises(SettingsError, match="frame ") as refused:
        FrameProfile.parse(wrong)
    assert told in str(refused.value)


def test_pattern_is_spread_over_its_round() -> None:
    assert (64, 1518, 64, 64, 1518, 64) == FrameProfile.parse("64x4+1518x2").sizes
    assert "64x4+1518x2" == FrameProfile.parse("64X4+1518X2").name


def test_traffic_has_the_options_of_the_test_and_ignores_others() -> None:
    options = {"forwarding": "l2", "vlan": "7", "flow_count": "1000", "acl_rules": "20", "protocol": "tcp"}

    traffic = TrafficProfile.parse("128B", options)

    assert TrafficProfile(
        FrameProfile.parse("128B"), forwarding="l2", vlans=(7,), flow_count=1000, protocol="tcp"
    ) == (traffic)
    assert traffic == TrafficProfile.parse("128B", traffic.options)


def test_each_link_may_have_a_vlan() -> None:
    traffic = TrafficProfile.parse("64B", {"vlan": "7,4094"})

    assert (7, 4094) == traffic.vlans
    assert [7, 4094, 7, 4094] == [vlan_of_link(traffic.vlans, link) for link in range(4)]
    assert traffic == TrafficProfile.parse("64B", traffic.options)


@pytest.mark.parametrize(("frame", "options", "reason"), [
    ("64B", {"forwarding": "ip5"}, "forwarding='ip5'.*ip6"),
    ("64B", {"vlan": "4095"}, "vlan='4095': write a number from 0 to 4094"),
    ("64B", {"vlan": "-1"}, "vlan='-1'"),
    ("64B", {"vlan": "7,0"}, "vlan='7,0'"),
    ("64B", {"vlan": "7,"}, "vlan='7,'"),
    ("64B", {"flow_count": "0"}, "flow_count='0'"),
    ("64B", {"flow_count": "65537"}, "flow_count=65537: write at most 65000, or a round number"),
    ("64B", {"forward_percent": "101"}, "forward_percent='101'"),
    ("64B", {"protocol": "udpp"}, "protocol='udpp'.*udp"),
    ("65B", {"forwarding": "ip6"}, "frame '65B': the headers of this traffic need at least 66 bytes"),
    ("IMIX", {"forwarding": "ip6"}, "need at least 66 bytes"),
    ("64B", {"forwarding": "l2", "tunnel": "vxlan"}, "need at least 96 bytes"),
    ("128B", {"forwarding": "ip4", "tunnel": "vxlan"}, "tunnel=vxlan: .*forwarding=l2"),
])  # fmt: skip
def test_impossible_traffic_is_refused(frame: str, options: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        TrafficProfile.parse(frame, options)


@pytest.mark.parametrize("count", [1, 256, 10_000, 65_000, 100_000, 1_000_000])
def test_flows_are_all_combinations_of_two_counters(count: int) -> None:
    traffic = TrafficProfile.parse("64B", {"flow_count": str(count)})

    assert count == traffic.hosts * traffic.ports
    assert 1 == math.gcd(traffic.hosts, traffic.ports)
    assert traffic.hosts <= 65_000


@given(st.integers(0, 10**9), st.integers(0, 100), st.sampled_from(LINK_COUNTS))
def test_directions_share_all_frames(count: int, percent: int, links: int) -> None:
    traffic = TrafficProfile.parse("64B", {"forward_percent": str(percent)})

    parts, shares = traffic.split(count, links), traffic.shares(links)

    assert links == len(parts) == len(shares)
    assert count == sum(parts)
    assert 1 == pytest.approx(sum(shares))
    for part, share in zip(parts, shares, strict=True):
        assert abs(part - count * share) < 1 + 1e-6


def test_frames_return_by_the_other_link_of_the_pair() -> None:
    assert [1, 0, 3, 2] == [opposite(port, 4) for port in range(4)]
    assert [1, 0, 2] == [opposite(port, 3) for port in range(3)]
    assert [1, 0] == [opposite(port, 2) for port in range(2)]
    assert 0 == opposite(0, 1)
