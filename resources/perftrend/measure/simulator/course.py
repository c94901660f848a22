"""The course of the loss in one trial: consecutive stretches of constant loss.

If a trial may end early, the time of its losses matters: a cold device loses frames at first, a device with a
buffer loses them at the end. Frames are counted as real numbers here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive frames with the same loss ratio."""

    frames: float
    loss_ratio: float

    @property
    def lost(self) -> float:
        """The number of its frames that are lost."""
        return self.frames * self.loss_ratio


@dataclass(frozen=True, slots=True)
class TrialCourse:
    """The stretches of a trial in the order of time."""

    stretches: tuple[Stretch, ...]

    @property
    def frames(self) -> float:
        """The number of frames sent in the whole trial."""
        return math.fsum(stretch.frames for stretch in self.stretches)

    @property
    def lost(self) -> float:
        """The number of frames lost in the whole trial."""
        return math.fsum(stretch.lost for stretch in self.stretches)

    def count_sent_until(self, lost: float) -> float:
        """Return the number of frames sent when ``lost`` were lost; all, if fewer are lost in total."""
        sent = 0.0
        for stretch in self.stretches:
            if 0.0 < stretch.lost >= lost:
                return sent + lost / stretch.loss_ratio
            lost -= stretch.lost
            sent += stretch.frames
        return sent

    def with_buffer(self, room: float) -> TrialCourse:
        """Return the course with a buffer for the first frames that would be lost."""
        return TrialCourse(tuple(self._absorb(room)))

    def _absorb(self, room: float) -> Iterable[Stretch]:
        for stretch in self.stretches:
            absorbed = min(room, stretch.lost)
            room -= absorbed
            if absorbed == 0.0:
                yield stretch
                continue
            free = stretch.frames * (absorbed / stretch.lost)
            yield Stretch(free, 0.0)
            if free < stretch.frames:
                yield Stretch(stretch.frames - free, stretch.loss_ratio)

    def with_gaps(self, gaps: Sequence[tuple[float, float]], loss_ratio: float) -> TrialCourse:
        """Return the course with at least this loss ratio in the gaps.

        :param gaps: first frame and the frame after the last of each gap, in order and disjoint.
        """
        return TrialCourse(tuple(self._cut_at(gaps, loss_ratio))) if gaps else self

    def _cut_at(self, gaps: Sequence[tuple[float, float]], loss_ratio: float) -> Iterable[Stretch]:
        position = 0.0
        for stretch in self.stretches:
            end = position + stretch.frames
            for first, after in gaps:
                start, stop = max(position, first), min(end, after)
                if start >= stop:
                    continue
                if start > position:
                    yield Stretch(start - position, stretch.loss_ratio)
                yield Stretch(stop - start, max(loss_ratio, stretch.loss_ratio))
                position = stop
            if position < end:
                yield Stretch(end - position, stretch.loss_ratio)
            position = end

    def with_scaled_loss(self, factor: float) -> TrialCourse:
        """Return the course with all loss ratios multiplied by ``factor``, at most 1."""
        return TrialCourse(
            tuple(
                Stretch(stretch.frames, min(1.0, factor * stretch.loss_ratio)) for stretch in self.stretches
            )
        )

    def with_added_loss(self, loss_ratio: float) -> TrialCourse:
        """Return the course with all loss ratios increased by ``loss_ratio``, at most 1."""
        return TrialCourse(
            tuple(
                Stretch(stretch.frames, min(1.0, stretch.loss_ratio + loss_ratio))
                for stretch in self.stretches
            )
        )
