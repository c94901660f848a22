"""The times at which a device pauses, on a clock that advances only during trials."""

from __future__ import annotations

from collections import deque

import numpy as np


class Pauses:
    """Pauses of equal length at regular or random intervals, independent of the trials.

    :param every_s: time between the starts of two pauses, above 0; the mean, if random.
    :param length_s: duration of each pause.
    :param is_random: whether the intervals are exponential, so that a pause may start at any time.
    :param random: draws the first start time, and those of random pauses.
    """

    def __init__(
        self, every_s: float, length_s: float, *, is_random: bool, random: np.random.Generator
    ) -> None:
        self._every_s = every_s
        self._length_s = length_s
        self._is_random = is_random
        self._random = random
        self._begins = deque([every_s * (random.exponential() if is_random else random.random())])

    def within(self, start_s: float, stop_s: float) -> list[tuple[float, float]]:
        """Return the pauses within this period, as (begin, end) counted from ``start_s``.

        :param start_s: not earlier than in a previous call.
        """
        while self._begins[-1] < stop_s:
            gap = self._random.exponential() if self._is_random else 1.0
            # A pause that begins within another one would only lengthen it.
            self._begins.append(self._begins[-1] + max(self._every_s * gap, self._length_s))
        while self._begins[0] + self._length_s <= start_s:
            self._begins.popleft()
        return [
            (max(0.0, begin - start_s), min(stop_s, begin + self._length_s) - start_s)
            for begin in self._begins
            if begin < stop_s
        ]
