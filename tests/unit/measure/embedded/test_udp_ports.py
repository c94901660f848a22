"""Ports over real sockets on the loopback interface, each test under an address of its own."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from perftrend.errors import TestbedError
from perftrend.measure.embedded import frames as addresses
from perftrend.measure.embedded.frames import build
from perftrend.measure.embedded.ports import DevicePort, GeneratorPort, device_port, generator_port
from perftrend.measure.traffic import TrafficProfile

Ends = tuple[GeneratorPort, DevicePort]
SHORT, LONG = (TrafficProfile.parse(frame, {}) for frame in ("64B", "1518B"))
FRAMES, LENGTHS = build(SHORT, addresses.frame_direction(0, SHORT), 512)


@pytest.fixture
def address() -> str:
    return ".".join(["127", *(str(secrets.randbelow(250) + 2) for _ in range(3))])


@pytest.fixture
def ends(address: str) -> Iterator[Ends]:
    generator = generator_port(f"udp:{address}:30000:20000")
    device = device_port(f"udp:{address}:20000:30000")
    generator.prepare(FRAMES, LENGTHS)
    yield generator, device
    generator.close()
    device.close()


def eventually(holds: Callable[[], bool]) -> bool:
    """Wait for what the kernel does a moment later."""
    end = time.monotonic() + 5
    while not holds() and time.monotonic() < end:
        time.sleep(0.001)
    return holds()


def taken(device: DevicePort, expected: int) -> list[bytes]:
    """Take frames as a device does, until so many have come or none comes for a while."""
    found: list[bytes] = []
    end = time.monotonic() + 5
    while len(found) < expected and time.monotonic() < end:
        start, count = device.receive(32)
        lengths = device.lengths(start, count).tolist()
        for row, length in zip(range(start, start + count), lengths, strict=True):
            found.append(device.buffer[row, device.offset : device.offset + length].tobytes())
        device.release(start, count)
    return found


def test_what_the_generator_sends_arrives_unchanged(ends: Ends) -> None:
    generator, device = ends

    assert 0 == generator.send(100, 128)
    assert sorted(frame.tobytes() for frame in FRAMES[100:228]) == sorted(taken(device, 128))


def test_what_the_device_sends_back_is_counted(ends: Ends) -> None:
    generator, device = ends
    messages = device.messages_from(device)
    generator.send(0, 16)
    while not (waiting := device.receive(16))[1]:
        pass
    messages.frame_lengths[:] = 60

    sent = sum(device.send(messages, *waiting) or waiting[1] for _ in range(3))

    assert eventually(lambda: generator.count_received() == sent)


def test_count_of_a_new_port_starts_at_zero(ends: Ends, address: str) -> None:
    generator, device = ends
    messages = device.messages_from(device)
    messages.frame_lengths[:] = 60
    device.send(messages, 0, 10)
    assert eventually(lambda: generator.count_received() == 10)
    generator.close()

    reopened = generator_port(f"udp:{address}:30000:20000")

    assert 0 == reopened.count_received()
    reopened.close()


def test_count_is_never_stopped_by_a_full_queue(ends: Ends) -> None:
    """Nobody reads what comes back; a queue of the usual size would hold some 300 frames."""
    generator, device = ends
    messages = device.messages_from(device)
    messages.frame_lengths[:] = 60

    for _ in range(10):
        device.send(messages, 0, 500)

    assert eventually(lambda: generator.count_received() == 5000)


def test_frames_that_a_slow_device_does_not_take_are_its_drops(ends: Ends) -> None:
    generator, device = ends
    for _ in range(20):
        generator.send(0, 512)

    found = len(taken(device, 20 * 512 - device.count_dropped()))

    assert device.count_dropped() > 0
    assert 20 * 512 == found + device.count_dropped()


def test_device_takes_at_most_as_many_as_asked_for(ends: Ends) -> None:
    generator, device = ends
    generator.send(0, 16)

    assert eventually(lambda: 4 == device.receive(4)[1])


def test_an_idle_device_has_nothing_to_take(ends: Ends) -> None:
    assert 0 == ends[1].receive(32)[1]


def test_an_imix_frame_of_full_length_passes(ends: Ends) -> None:
    generator, device = ends
    frames, lengths = build(LONG, addresses.frame_direction(0, LONG), 16)
    generator.prepare(frames, lengths)

    generator.send(0, 1)

    assert [frames[0].tobytes()] == taken(device, 1)


@pytest.mark.parametrize("name", ["udp:127.0.0.1:30000", "udp:127.0.0.1:x:y", "tcp:127.0.0.1:1:2", "", "x"])
@pytest.mark.parametrize("opened", [generator_port, device_port])
def test_name_that_is_no_port_is_refused_with_the_right_form(
    opened: Callable[[str], object], name: str
) -> None:
    with pytest.raises(TestbedError, match="write packet:INTERFACE, queued:INTERFACE or udp:ADDRESS"):
        opened(name)


def test_buffer_suits_headers_that_are_read_as_words(ends: Ends) -> None:
    """The IPv4 header, 14 bytes into a frame, lies on a multiple of four."""
    device = ends[1]

    assert 0 == (device.offset + 14) % 4
    assert 0 == device.buffer.strides[0] % 4
    assert np.uint8 == device.buffer.dtype
