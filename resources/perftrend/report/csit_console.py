"""One test of two builds in the output format of CSIT.

Source: "Bisecting", section Console output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perftrend.analysis.comparison import CsitComparison


def values(name: str, samples: Sequence[float]) -> Iterator[str]:
    """Yield the values of a build in chronological order, and sorted by value."""
    yield f"Values of {name} in the order of time: {_format_list(samples)}"
    yield f"Values of {name} by value: {_format_list(sorted(samples))}"


def groups(found: CsitComparison) -> Iterator[str]:
    """Yield the difference, the groups with their bits, which description is shorter, and the verdict."""
    if not (found.parent.samples and found.current.samples):
        yield "Difference of averages: none, because a build has no values"
        yield f"Test result classification: {found.classification}"
        return
    yield f"Difference of averages: {found.difference_percent:+.3f} % of the parent average"
    for name, group in (("parent", found.parent), ("current", found.current), ("combined", found.combined)):
        yield (
            f"jumpavg representation of {name}: size={len(group.samples)} avg={group.average:.8g} "
            f"stdev={group.deviation:.6g} bits={group.bits:.3f}"
        )
    shorter = "two groups" if found.are_two else "one group"
    yield f"The description as {shorter} is the shorter one by {abs(found.shorter_by_bits):.3f} bits."
    yield f"Test result classification: {found.classification}"


def _format_list(samples: Sequence[float]) -> str:
    return f"[{', '.join(f'{sample:.8g}' for sample in samples)}]"
