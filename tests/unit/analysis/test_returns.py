from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np

from perftrend.analysis.reportable_changes import doubt_of_return, visits
from perftrend.model import Group, Samples


def levels(*parts: tuple[float, int]) -> tuple[list[Group], Samples]:
    """Return groups of averages and sizes, and their runs."""
    samples = np.concatenate([np.full(size, mean) for mean, size in parts])
    bounds = list(accumulate((size for _, size in parts), initial=0))
    groups = [Group(*each, mean, 0.1, 0.0) for each, (mean, _) in zip(pairwise(bounds), parts, strict=True)]
    return groups, samples


def test_earlier_stays_on_the_side_of_a_step_are_visits() -> None:
    """At least as low as 95, half-way to 90; 96 is not, and neighbours are one visit."""
    groups, samples = levels(
        (100, 20), (94, 5), (92, 4), (100, 9), (96, 8), (100, 9), (88, 6), (100, 9), (90, 3)
    )

    assert [9, 6] == visits(groups, 8, samples)


def test_single_bad_runs_are_no_visits_and_end_none() -> None:
    groups, samples = levels((90, 10), (60, 1), (90, 4), (100, 40), (80, 2), (100, 9), (90, 3))

    assert [14] == visits(groups, 6, samples)


def test_level_that_was_left_twice_is_doubted_until_it_lasts() -> None:
    start = ((100, 20), (90, 6), (100, 8), (90, 8), (100, 9))
    doubts = [doubt_of_return(*args) for args in (_last(*start, (90, 5)), _last(*start, (90, 36)))]

    assert ["as 2 times before, and the trace came back", ""] == doubts


def test_stay_ends_when_the_trace_returns() -> None:
    """Otherwise the doubt would end as the earlier level lasts, and the step be reported after all."""
    groups, samples = levels((100, 20), (90, 6), (100, 8), (90, 8), (100, 9), (90, 5), (100, 40))

    assert "as 2 times before, and the trace came back" == doubt_of_return(groups, 5, samples)


def test_runs_at_the_level_before_do_not_count_as_a_stay() -> None:
    """A group of two runs is too small to end it; its runs are not of the stay either."""
    groups, samples = levels((100, 20), (90, 6), (100, 8), (90, 8), (100, 9), (90, 35), (100, 2))

    assert "as 2 times before, and the trace came back" == doubt_of_return(groups, 5, samples)


def test_change_that_was_taken_back_once_is_news_when_it_returns() -> None:
    assert not doubt_of_return(*_last((100, 20), (90, 6), (100, 8), (90, 5)))


def _last(*parts: tuple[float, int]) -> tuple[list[Group], int, Samples]:
    groups, samples = levels(*parts)
    return groups, len(groups) - 1, samples
