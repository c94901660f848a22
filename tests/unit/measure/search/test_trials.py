from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perftrend.errors import SearchTimeoutError
from perftrend.measure.search.trials import doubt, first_doubt, passes, perform, within
from perftrend.measurement import Trial


def counted(sent: int, received: int, invalid: str = "") -> Trial:
    return Trial(1000.0, 1.0, 1.0, sent, received, invalid)


@given(sent=st.integers(1, 10**12), percent=st.integers(0, 99))
@example(sent=100, percent=29)  # 0.29 * 100 is a little less than 29
def test_loss_is_judged_by_whole_frames(sent: int, percent: int) -> None:
    allowed = sent * percent // 100

    assert passes(counted(sent, sent - allowed), percent / 100)
    assert not passes(counted(sent, sent - allowed - 1), percent / 100)


@pytest.mark.parametrize(
    ("trial", "reason"),
    [
        (counted(1000, 1000), ""),
        (counted(1000, 0), ""),
        (counted(1000, 1000, "generator too slow"), "generator too slow"),
        (counted(0, 0), "the trial at 1000 pps for 1 s sent nothing"),
        (counted(10, 11), "the trial at 1000 pps for 1 s received 11 frames and sent only 10"),
    ],
)
def test_doubt(trial: Trial, reason: str) -> None:
    assert reason == doubt(trial)


def test_first_doubt_is_told() -> None:
    assert first_doubt([counted(1, 1), counted(1, 1, "first"), counted(1, 1, "second")]) == "first"
    assert first_doubt([]) == ""


def test_trial_bears_the_rate_that_was_asked_for() -> None:
    """A generator that rounds does not move a bound."""
    trial = perform(lambda rate, duration, _: Trial(round(rate), duration, 0.5, 10, 9), 10.4, 1.0, None)

    assert Trial(10.4, 1.0, 0.5, 10, 9) == trial


def test_no_trial_begins_once_the_time_is_used_up() -> None:
    limited = within(lambda rate_pps, duration_s, _: Trial(rate_pps, duration_s, 1.5, 1, 1), 3.0)

    assert [7.0, 8.0] == [limited(rate_pps, 2.0, None).rate_pps for rate_pps in (7.0, 8.0)]
    with pytest.raises(SearchTimeoutError, match=r"after 3 s of trials \(timeout_s is 3\)"):
        limited(9.0, 2.0, None)


def test_search_without_a_limit_may_take_any_time() -> None:
    limited = within(lambda rate_pps, duration_s, _: Trial(rate_pps, duration_s, 1e9, 1, 1), None)

    assert [7.0] * 3 == [limited(7.0, 2.0, None).rate_pps for _ in range(3)]
