"""The generator on ports that are doubles, in a time of its own: nothing here depends on the machine."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftrend.measure.embedded import generator
from perftrend.measure.embedded.generator import Count, Generator, SocketSender
from perftrend.measure.embedded.ports import GeneratorPort
from perftrend.measure.traffic import TrafficProfile


class Clock:
    """Stands in for the module ``time``: looking at it and sleeping take time, nothing else does."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.withheld_s = 0.0
        """Time in which the process did not have its core."""

    def perf_counter(self) -> float:
        self.now += 5e-6
        return self.now

    def thread_time(self) -> float:
        return self.now - self.withheld_s

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Port(GeneratorPort):
    """Stands in for a port behind which a device returns, loses or delays frames.

    :param lose_every: each so many-th frame is lost; 0: none.
    :param delay_s: how long a frame is under way.
    :param cost_s: how long sending one frame takes.
    :param before: frames that had come back before the trial.
    """

    def __init__(
        self, clock: Clock, *, lose_every: int = 0, delay_s: float = 0.0, cost_s: float = 0.0, before: int = 0
    ) -> None:
        self._clock = clock
        self._lose_every = lose_every
        self._delay_s = delay_s
        self._cost_s = cost_s
        self._before = before
        self._back_at: list[float] = []
        self.sent: list[int] = []
        """The number of each frame that was sent."""

    def prepare(self, frames: Any, lengths: Any) -> None:
        self.prepared = len(frames)

    def send(self, start: int, count: int) -> int:
        for number in range(start, start + count):
            self.sent.append(number)
            self._clock.now += self._cost_s
            if not self._lose_every or len(self.sent) % self._lose_every:
                self._back_at.append(self._clock.now + self._delay_s)
        return 0

    def count_received(self) -> int:
        return self._before + bisect.bisect_right(self._back_at, self._clock.now)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def clock() -> Iterator[Clock]:
    with pytest.MonkeyPatch.context() as patch:
        double = Clock()
        patch.setattr(generator, "time", double)
        yield double


def ports(clock: Clock, **behaviour: Any) -> list[Port]:
    return [Port(clock, **behaviour), Port(clock, **behaviour)]


def generator_on(members: list[Port]) -> Generator:
    sender = SocketSender(members)
    sender.use(TrafficProfile.parse("64B", {}))
    return Generator(sender)


def trial(members: list[Port], rate_pps: float, duration_s: float, fail_above: float | None = None) -> Count:
    return generator_on(members).trial(rate_pps, duration_s, fail_above)


def test_frames_received_are_counted_by_direction(clock: Clock) -> None:
    """A port counts the frames that the other one sent. Here, only the second port receives all of them."""
    members = [Port(clock, lose_every=4, before=7), Port(clock)]

    count = trial(members, 10_000, 0.02)

    assert ([100, 100], [100, 75]) == (count.sent_each, count.received_each)
    assert 175 == count.received


exact = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@exact
@given(st.integers(1, 100_000), st.floats(0.0001, 0.03))
def test_exactly_rate_times_duration_frames_are_sent(clock: Clock, rate_pps: int, duration_s: float) -> None:
    members = ports(clock)

    count = trial(members, rate_pps, duration_s)

    assert (
        round(rate_pps * duration_s) == count.planned == count.sent == sum(len(port.sent) for port in members)
    )
    assert count.sent == count.received


@exact
@given(st.integers(1, 100_000), st.floats(0.0001, 0.03))
def test_both_directions_are_equal_to_within_one_frame(
    clock: Clock, rate_pps: int, duration_s: float
) -> None:
    members = ports(clock)

    trial(members, rate_pps, duration_s)

    assert len(members[0].sent) - len(members[1].sent) in (0, 1)


def test_prepared_frames_are_sent_one_after_the_other_and_over_again(clock: Clock) -> None:
    members = ports(clock)
    sender = generator_on(members)

    for _ in range(3):
        sender.trial(100_000, 0.03)

    for port in members:
        assert [number % port.prepared for number in range(4500)] == port.sent


@pytest.mark.parametrize("rate_pps", [5_000, 50_000, 200_000])
def test_rate_is_the_one_that_was_asked_for(clock: Clock, rate_pps: int) -> None:
    count = trial(ports(clock), rate_pps, 0.1)

    assert rate_pps == pytest.approx(count.sent / count.sending_s, rel=0.01)


def test_generator_that_is_too_slow_sends_all_and_takes_longer(clock: Clock) -> None:
    """A frame costs 10 µs, which is 100,000 pps at best."""
    count = trial(ports(clock, cost_s=1e-5), 200_000, 0.1)

    assert 20_000 == count.sent == count.planned
    assert count.sending_s > 0.2


@pytest.mark.parametrize(("rate_pps", "load"), [(1_000, 0.0), (50_000, 0.0), (200_000, 1.0)])
def test_load_shows_whether_the_generator_is_at_its_limit(clock: Clock, rate_pps: float, load: float) -> None:
    """A frame costs 10 µs, which is 100,000 pps at best."""
    count = trial(ports(clock, cost_s=1e-5), rate_pps, 0.1)

    assert load == pytest.approx(count.load, abs=0.02)
    assert 1.0 == pytest.approx(count.core_share, abs=0.001)


def test_time_without_a_core_is_no_share_of_it(clock: Clock) -> None:
    members = ports(clock)
    usual = members[0].send

    def withheld(start: int, count: int) -> int:
        if len(members[0].sent) == 500:
            clock.now += 0.025
            clock.withheld_s += 0.025
        return usual(start, count)

    members[0].send = withheld  # type: ignore[method-assign]

    count = trial(members, 20_000, 0.1)

    assert 1 - 0.025 / count.sending_s == pytest.approx(count.core_share, abs=0.001)


def test_a_short_pause_is_caught_up(clock: Clock) -> None:
    members = ports(clock)
    usual = members[0].send

    def pausing(start: int, count: int) -> int:
        if len(members[0].sent) == 1000:
            clock.now += 0.004
        return usual(start, count)

    members[0].send = pausing  # type: ignore[method-assign]

    count = trial(members, 50_000, 0.2)

    assert 50_000 == pytest.approx(count.sent / count.sending_s, rel=0.01)


@pytest.mark.parametrize(("pause_s", "lost_s"), [(0.008, 0.0), (0.014, 0.0), (0.04, 0.025)])
def test_a_longer_pause_is_caught_up_little_by_little(clock: Clock, pause_s: float, lost_s: float) -> None:
    """5 ms at once, and then 10 ms at most at a rate that is 2 % higher."""
    members = ports(clock)
    usual = members[0].send
    times: list[float] = []

    def pausing(start: int, count: int) -> int:
        if len(members[0].sent) == 5000:
            clock.now += pause_s
        times.extend([clock.now] * count)
        return usual(start, count)

    members[0].send = pausing  # type: ignore[method-assign]

    count = trial(members, 50_000, 1.0)

    assert 50_000 / (1.0 + lost_s) == pytest.approx(count.sent / count.sending_s, rel=2e-4)
    ended = next(index for index in range(5000, len(times)) if times[index] > times[5000] + 0.01)
    for begin in range(ended, len(times) - 2500, 100):
        assert times[begin + 2500] - times[begin] >= 0.1 / 1.0205


def test_frames_from_before_the_trial_do_not_count(clock: Clock) -> None:
    assert 100 == trial(ports(clock, before=12_345), 10_000, 0.01).received


def test_frames_under_way_are_waited_for(clock: Clock) -> None:
    """20 ms after the last frame was sent."""
    count = trial(ports(clock, delay_s=0.02), 20_000, 0.1)

    assert 2000 == count.sent == count.received
    assert count.elapsed_s > count.sending_s + 0.02


def test_lost_frames_are_not_waited_for_without_end(clock: Clock) -> None:
    count = trial(ports(clock, lose_every=1), 20_000, 0.1)

    assert (2000, 0) == (count.sent, count.received)
    assert count.elapsed_s < 0.3


def test_trial_without_a_limit_never_ends_early(clock: Clock) -> None:
    count = trial(ports(clock, lose_every=1), 20_000, 0.5)

    assert (10_000, 0, False) == (count.sent, count.received, count.unproven)


def test_trial_ends_once_its_loss_is_certain(clock: Clock) -> None:
    """Half is lost; a hundredth of the whole would be too much."""
    count = trial(ports(clock, lose_every=2), 20_000, 1.0, fail_above=0.01)

    assert 20_000 == count.planned
    assert count.sent < 13_000
    assert count.sent - count.received > 0.01 * count.planned
    assert not count.unproven


@settings(exact)
@given(st.integers(2, 40), st.sampled_from([0.0, 0.005, 0.03, 0.2, 0.49]))
def test_an_early_end_always_proves_the_loss_of_the_whole_trial(
    clock: Clock, lose_every: int, fail_above: float
) -> None:
    count = trial(ports(clock, lose_every=lose_every, delay_s=0.002), 10_000, 0.3, fail_above)

    limit = fail_above * count.planned
    lost, lost_of_the_whole = count.sent - count.received, 2 * (1500 // lose_every)
    assert (lost_of_the_whole > limit) == (lost > limit)
    assert count.sent == count.planned or lost > limit
    assert not count.unproven


def test_loss_just_below_the_limit_ends_nothing(clock: Clock) -> None:
    """30 of 3000 frames are lost and 30 may be."""
    count = trial(ports(clock, lose_every=100), 10_000, 0.3, fail_above=0.01)

    assert (3000, 2970, False) == (count.sent, count.received, count.unproven)


def test_what_is_late_but_arrives_is_not_called_lost(clock: Clock) -> None:
    """Frames that are 400 ms under way look lost for a while; the trial ends early and says why."""
    count = trial(ports(clock, delay_s=0.4), 20_000, 1.0, fail_above=0.0)

    assert count.sent < count.planned
    assert count.sent == count.received
    assert count.unproven


def test_second_trial_starts_from_nothing(clock: Clock) -> None:
    members = ports(clock, lose_every=2)
    sender = generator_on(members)
    sender.trial(20_000, 0.1)

    assert (1000, 500) == ((count := sender.trial(10_000, 0.1)).sent, count.received)
