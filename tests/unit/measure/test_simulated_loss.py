from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.measure.simulated_loss import Stretch, TrialCourse

COURSES = st.lists(
    st.builds(Stretch, st.floats(0, 1e9), st.sampled_from([0.0, 1e-7, 0.005, 0.3, 1.0])), min_size=1
).map(lambda stretches: TrialCourse(tuple(stretches)))
BY_HAND = TrialCourse((Stretch(1000, 0.1), Stretch(500, 0.0), Stretch(2000, 0.05)))


def test_loss_is_that_of_all_stretches() -> None:
    assert pytest.approx(200) == BY_HAND.lost


@pytest.mark.parametrize(
    ("lost", "sent"), [(0, 0), (50, 500), (100, 1000), (101, 1520), (200, 3500), (201, 3500)]
)
def test_losses_come_in_order(lost: float, sent: float) -> None:
    assert pytest.approx(sent) == BY_HAND.count_sent_until(lost)


@pytest.mark.parametrize(
    ("room", "lost", "first"), [(0, 200, 10), (50, 150, 510), (150, 50, 2520), (999, 0, 3500)]
)
def test_buffer_takes_the_first_losses(room: float, lost: float, first: float) -> None:
    """``first`` is when the first frame is lost, of ten or of twenty after the buffer is full."""
    buffered = BY_HAND.with_buffer(room)

    assert pytest.approx(lost) == buffered.lost
    assert pytest.approx(first) == buffered.count_sent_until(1)


def test_no_stretch_loses_more_than_everything() -> None:
    assert pytest.approx([0.99, 0.89, 0.94]) == [
        of.loss_ratio for of in BY_HAND.with_added_loss(0.89).stretches
    ]
    assert [1.0, 0.95, 1.0] == [of.loss_ratio for of in BY_HAND.with_added_loss(0.95).stretches]


def test_gaps_lose_all_and_leave_the_rest_alone() -> None:
    interrupted = BY_HAND.with_gaps([(900, 1100), (1400, 1600)], 1.0)

    assert [(900, 0.1), (100, 1.0), (100, 1.0), (300, 0.0), (100, 1.0), (100, 1.0), (1900, 0.05)] == [
        (stretch.frames, stretch.loss_ratio) for stretch in interrupted.stretches
    ]


def test_gap_loses_no_less_than_was_lost_without_it() -> None:
    assert pytest.approx(100 + 0.08 * 500 + 0.08 * 2000) == BY_HAND.with_gaps([(0, 3500)], 0.08).lost


def test_scaled_course_loses_as_many_times_more() -> None:
    assert pytest.approx(600) == BY_HAND.with_scaled_loss(3.0).lost


@given(course=COURSES, room=st.floats(0, 1e9))
def test_buffer_neither_makes_nor_hides_frames(course: TrialCourse, room: float) -> None:
    buffered = course.with_buffer(room)

    assert pytest.approx(sum(of.frames for of in course.stretches)) == sum(
        of.frames for of in buffered.stretches
    )
    assert pytest.approx(max(0.0, course.lost - room), abs=1e-3) == buffered.lost


@given(course=COURSES, shares=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_more_losses_take_longer(course: TrialCourse, shares: tuple[float, float]) -> None:
    fewer, more = (course.count_sent_until(course.lost * share) for share in sorted(shares))

    assert 0 <= fewer <= more <= sum(of.frames for of in course.stretches) * (1 + 1e-9)
