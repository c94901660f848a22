from __future__ import annotations

import struct
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SettingsError
from perftrend.measure.embedded import frames as addresses
from perftrend.measure.embedded.frames import (
    FLOWS,
    FrameDirection,
    FrameProfile,
    build,
    count_prepared_frames,
    ip4_checksum,
)

PROFILES = ["64B", "65B", "1518B", "9000B", "IMIX", "64x3+9000x1"]


def folded(header: bytes) -> int:
    """Add up 16 bit words, carry by carry: 0xFFFF for a header whose checksum is right."""
    total = 0
    for (word,) in struct.iter_unpack(">H", header):
        total += word
        total = (total & 0xFFFF) + (total >> 16)
    return total


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


@pytest.mark.parametrize("name", [*PROFILES, "64x6+65x1", "64x23+1518x1"])
def test_whole_rounds_are_prepared(name: str) -> None:
    profile = FrameProfile.parse(name)
    count = count_prepared_frames(profile)

    assert 0 == count % FLOWS == count % len(profile.sizes)
    assert count <= 24 * FLOWS


@given(st.binary(min_size=20, max_size=20))
def test_checksum_makes_any_header_add_up(header: bytes) -> None:
    blank = header[:10] + b"\0\0" + header[12:]
    checksum = int(ip4_checksum(np.frombuffer(blank, np.uint8).reshape(1, 20))[0])

    # Only a header of zeros adds up to zero, which is the same number in ones' complement.
    assert 0xFFFF == folded(blank[:10] + struct.pack(">H", checksum) + blank[12:])


@given(
    st.sampled_from(PROFILES),
    st.integers(1, 600),
    st.integers(0, 2**32 - 300),
    st.integers(0, 2**32 - 300),
)
def test_every_frame_has_a_right_header(name: str, count: int, source: int, destination: int) -> None:
    direction = FrameDirection(bytes(6), bytes(6), source, destination)

    frames, lengths = build(FrameProfile.parse(name), direction, count)

    for frame, length in zip(frames, lengths.tolist(), strict=True):
        raw = frame.tobytes()
        assert 0xFFFF == folded(raw[14:34])
        assert (length - 14, length - 34) == struct.unpack_from(">H20xH", raw, 16)


@pytest.mark.parametrize("name", PROFILES)
def test_lengths_follow_the_profile_without_the_checksum(name: str) -> None:
    profile = FrameProfile.parse(name)

    _, lengths = build(profile, addresses.frame_direction(0, bridged=False), 3 * len(profile.sizes))

    assert [size - 4 for size in profile.sizes] * 3 == lengths.tolist()


def test_a_direction_has_256_flows() -> None:
    frames, _ = build(FrameProfile.parse("64B"), addresses.frame_direction(0, bridged=False), 1024)

    flows = Counter((frame[26:30].tobytes(), frame[30:34].tobytes()) for frame in frames)

    assert [4] * 256 == list(flows.values())


@pytest.mark.parametrize("port", [0, 1])
def test_routed_frames_go_to_the_device_and_to_the_other_network(port: int) -> None:
    frames, _ = build(FrameProfile.parse("64B"), addresses.frame_direction(port, bridged=False), 4)

    raw = frames[0].tobytes()
    assert addresses.device_mac(port) + addresses.host_mac(port) == raw[:12]
    assert addresses.NETWORKS[port] >> 16 == int.from_bytes(raw[26:28], "big")
    assert addresses.NETWORKS[1 - port] >> 16 == int.from_bytes(raw[30:32], "big")


@pytest.mark.parametrize("port", [0, 1])
def test_bridged_frames_go_straight_to_the_other_host(port: int) -> None:
    frames, _ = build(FrameProfile.parse("64B"), addresses.frame_direction(port, bridged=True), 4)

    assert addresses.host_mac(1 - port) + addresses.host_mac(port) == frames[0].tobytes()[:12]
