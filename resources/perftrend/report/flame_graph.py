"""A differential flame graph: where a program executes its instructions, and where more or fewer than before.

Each frame is a function, as wide as its share of all instructions, those of the functions that it calls
included; these are above it. Its colour shows how its own instructions differ between two builds. The graph
has the build that executes more of them, so that functions which only this one calls are visible.

It is SVG without scripts and inline styles, which Jenkins forbids on artifact pages. Colours are those of the
style sheet.

Source: Gregg, "The Flame Graph", Communications of the ACM 59(6), 2016.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from perftrend.analysis.instructions import InstructionCounts, InstructionDifference
from perftrend.text import format_count, percent, share

_WIDTH, _FRAME_HEIGHT = 1080, 18
_NARROWEST = 1.0
"""Narrower frames are not drawn."""
_LETTER = 6.6
"""Width of a letter."""
_MARGIN = 3
_FEWEST_LETTERS = 3
_LEVELS = (0.001, 0.01, 0.05)
"""Differences of the own instructions of a frame, relative to all, from which its colour changes."""
_ALL = "all"


@dataclass(frozen=True, slots=True)
class Frame:
    """A rectangle of the graph."""

    x: float
    y: float
    width: float
    style: str
    """``same``, or ``more`` or ``fewer`` with a level from 1 to 3."""
    label: str
    """The name of the function, as much of it as fits; may be empty."""
    text: str
    """What it is and how it differs, for readers who point at it."""


@dataclass(frozen=True, slots=True)
class FlameGraph:
    """The frames, and the size of the picture."""

    frames: tuple[Frame, ...]
    height: int
    side: str
    """The build that is shown, ``before`` or ``after``."""
    sentence: str
    """What the picture shows, for readers who do not see it."""
    width: int = _WIDTH
    frame_height: int = _FRAME_HEIGHT


@dataclass(slots=True)
class _Node:
    """A function that was called by the same functions."""

    own: list[int] = field(default_factory=lambda: [0, 0])
    """Instructions before and after."""
    whole: list[int] = field(default_factory=lambda: [0, 0])
    """The same with those of the functions that it calls."""
    callees: dict[str, _Node] = field(default_factory=dict)


def draw(difference: InstructionDifference) -> FlameGraph | None:
    """Draw the instructions of two builds; return None if it is not known which functions call others."""
    before, after = difference.stacks
    if not before or not after:
        return None
    root = _tree(before, after)
    shown = int(root.whole[1] >= root.whole[0])
    frames = tuple(_Painter(shown, root.whole[shown]).frames(_ALL, root))
    height = _FRAME_HEIGHT * (1 + max(round(each.y / _FRAME_HEIGHT) for each in frames))
    side = ("before", "after")[shown]
    turned = tuple(
        Frame(each.x, height - _FRAME_HEIGHT - each.y, each.width, each.style, each.label, each.text)
        for each in frames
    )
    changed = sum(each.style != "same" for each in frames)
    sentence = f"Where instructions are executed {side} the change: {format_count(changed, 'frame')} changed"
    return FlameGraph(turned, height, side, sentence)


def _tree(before: InstructionCounts, after: InstructionCounts) -> _Node:
    root = _Node()
    for side, counts in enumerate((before, after)):
        for path, count in counts.items():
            node = root
            node.whole[side] += count
            for function in path:
                node = node.callees.setdefault(function, _Node())
                node.whole[side] += count
            node.own[side] += count
    return root


@dataclass(frozen=True, slots=True)
class _Painter:
    """Draws one of two builds."""

    shown: int
    """0: that before; 1: that after."""
    total: int
    """Its instructions."""

    def frames(self, name: str, node: _Node, x: float = 0.0, depth: int = 0) -> Iterator[Frame]:
        """Yield the frame of a node and those of its callees; ``y`` grows with the depth."""
        share_of_all = node.whole[self.shown] / self.total
        width = _WIDTH * share_of_all
        if width < _NARROWEST:
            return
        difference = (node.own[1] - node.own[0]) / self.total
        level = sum(abs(difference) >= each for each in _LEVELS)
        style = f"{'more' if difference > 0 else 'fewer'}-{level}" if level else "same"
        own = f", its own {percent(difference)}" if level else ""
        text = f"{name}: {share(share_of_all)} of all instructions{own}"
        yield Frame(round(x, 1), depth * _FRAME_HEIGHT, round(width, 1), style, _label(name, width), text)
        for callee, child in sorted(node.callees.items()):
            yield from self.frames(callee, child, x, depth + 1)
            x += _WIDTH * child.whole[self.shown] / self.total


def _label(name: str, width: float) -> str:
    letters = int((width - 2 * _MARGIN) / _LETTER)
    if len(name) <= letters:
        return name
    return f"{name[: letters - 1]}…" if letters >= _FEWEST_LETTERS else ""
