from __future__ import annotations

import pytest

from benchmarks.overhead import sum_pauses_s


@pytest.mark.parametrize(
    ("invalid", "seconds"),
    [
        ([], 0.0),
        ([False, False], 0.0),
        # Each attempt at one trial is waited for longer.
        ([True, True, False, False], 0.2 + 0.4),
        ([True, False, True, False], 0.2 + 0.2),
        # After the fifth it is the next trial's turn.
        ([True] * 6 + [False], 0.2 + 0.4 + 0.6 + 0.8 + 0.0 + 0.2),
    ],
)
def test_pauses_before_repeated_trials_are_told_apart(invalid: list[bool], seconds: float) -> None:
    assert seconds == pytest.approx(sum_pauses_s(invalid))
