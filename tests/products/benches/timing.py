"""What a benchmark prints: five samples of how long its work takes, in times of a fixed piece of work.

Whoever else uses the machine slows both alike, by half and more where two programs share a core. Seconds
would tell of the neighbours; this tells of the release.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator

SAMPLES = 5
_WORDS = [f"word {number} of a text" for number in range(200)]


def relative(work: Callable[[], object], *, runs: int = 60, times: int = 1) -> Iterator[float]:
    """Yield how many times as long as the fixed piece a piece of work takes.

    :param runs: how many of both a sample takes the best of, in turn, so that both find the same machine.
    :param times: how often the work is done in a run.
    """
    _took_s(work, times)
    _took_s(_fixed, 1)
    for _ in range(SAMPLES):
        pairs = [(_took_s(work, times), _took_s(_fixed, 1)) for _ in range(runs)]
        best, fixed = (min(each) for each in zip(*pairs, strict=True))
        yield best / times / fixed


def say(numbers: Iterable[float]) -> None:
    sys.stdout.writelines(f"{number}\n" for number in numbers)


def _took_s(work: Callable[[], object], times: int) -> float:
    started = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - started


def _fixed() -> int:
    """Do what parsers and generators of code do: cut texts, look things up, call functions."""
    seen: dict[str, int] = {}
    for _ in range(10):
        for word in _WORDS:
            for part in word.split():
                seen[part.upper()] = seen.get(part, 0) + len(part)
    return sum(seen.values())
