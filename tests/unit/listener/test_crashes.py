"""A listener that is killed at any step, and started again, starts each job once and answers once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perftrend.store.requests import Requests

LINES = ("perftest-2n-clx mrrAND64b", "perftest-1n-veth 64b")


class Killed(BaseException):
    """The process is gone."""


class Crash:
    """Kills before or after the n-th step that leaves a trace somewhere."""

    def __init__(self, step: int, *, after: bool) -> None:
        self.left, self.after = step, after

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                raise Killed
            found = function(*arguments, **named)
            if self.left == 0:
                raise Killed
            return found

        return step


def steps(bench: Any, patch: pytest.MonkeyPatch, crash: Crash) -> None:
    """Let every step that leaves a trace be one at which it may crash."""
    for name in ("add", "change", "claim", "mark_answered", "set_mark"):
        patch.setattr(Requests, name, crash.around(getattr(Requests, name)))
    patch.setattr(bench.runner, "begin", crash.around(bench.runner.begin))
    patch.setattr(bench.gerrit, "answer", crash.around(bench.gerrit.answer))


def asked(bench: Any) -> None:
    bench.gerrit.write("\n".join((*LINES, "perftest-2n-clxx mrr")))
    bench.gerrit.write(f"{LINES[0]} -- --dry-run")


def number_of_steps(bench: Any) -> int:
    asked(bench)
    crash = Crash(10_000, after=False)
    with pytest.MonkeyPatch.context() as patch:
        steps(bench, patch, crash)
        bench.serve()
    return 10_000 - crash.left


def test_there_are_as_many_steps_as_the_next_test_tries(listener: Any) -> None:
    """Two marks, one entry a change, two steps for each of two starts, ..."""
    assert STEPS == number_of_steps(listener)


STEPS = 17


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_killed_at_any_step_it_loses_nothing_and_doubles_nothing(
    step: int, after: bool, listener: Any
) -> None:  # fmt: skip
    asked(listener)
    with pytest.MonkeyPatch.context() as patch:
        steps(listener, patch, Crash(step, after=after))
        with pytest.raises(Killed):
            listener.serve()

    listener.serve()
    listener.serve()

    assert sorted(LINES) == sorted(listener.runner.started)
    assert 2 == len(listener.answers)
    assert [] == listener.store.requests.list_open()
