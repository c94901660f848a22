"""The graph of a search, read as the picture that it is."""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree, html

from perftrend.measure.search import SearchResult, mdr_search
from perftrend.measure.simulator import DeviceModel
from perftrend.measurement import Interval, Phase, Step, Trial
from perftrend.report import search_graph
from perftrend.report.search_graph import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH

RATIOS = (0.0, 0.5)
HOSTILE = "</title><script>alert(1)</script>\x00\uffff&"


SHOWN = "</title><script>alert(1)</script>\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}&"


def trial(rate: float, duration: float, lost: int, **fields: Any) -> Trial:
    return Trial(rate, duration, fields.pop("elapsed_s", duration), 100, 100 - lost, **fields)


FIRST = Step(trial(100e6, 1, 90), "maximum rate", ())
WIDE, NARROW = Interval(8e6, 12e6), Interval(10e6, 12e6)
SECOND = Step(trial(12e6, 2, 60, elapsed_s=0.5), "MRR", (WIDE, WIDE))
THIRD = Step(trial(10e6, 10, 20), "too wide", (WIDE, NARROW))
PHASES = (Phase("initial", 1, 0.5, (FIRST, SECOND)), Phase("final", 10, 0.2, (THIRD,)))


def drawn(*phases: Phase, ratios: tuple[float, ...] = RATIOS, **options: Any) -> etree._Element:
    return etree.fromstring(search_graph.svg(phases or PHASES, ratios, **options).encode())


def found(picture: etree._Element, path: str) -> list[Any]:
    return picture.xpath(path, namespaces={"s": "http://www.w3.org/2000/svg"})


def marks(picture: etree._Element) -> list[etree._Element]:
    return found(picture, "//s:g[starts-with(@class, 'trial ')]")


def place(mark: etree._Element) -> tuple[float, float]:
    (circle,) = found(mark, "s:circle[@r='9']")
    return float(circle.get("cx")), float(circle.get("cy"))


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.-]+) ([\d.-]+)", path)]


def simulated(kind: str) -> SearchResult:
    return mdr_search(DeviceModel.of_kind(kind, 12.3e6), minimum_pps=20e3, maximum_pps=29.76e6)


def test_each_trial_is_told_where_it_is_pointed_at() -> None:
    told = [mark.get("aria-label") for mark in marks(drawn())]

    assert [
        "100.0000 Mpps for 1 s: 90 % lost. maximum rate",
        "12.0000 Mpps for 2 s, ended after 0.5 s: 60 % lost by then. MRR",
        "10.0000 Mpps for 10 s: 20 % lost. too wide",
    ] == told


def test_shape_tells_how_a_trial_ended() -> None:
    steps = [Step(trial(10e6, 1, lost), "", (NARROW, NARROW)) for lost in (0, 1, 50, 51)]

    shapes = [mark.get("class") for mark in marks(drawn(Phase("final", 1, 0.1, tuple(steps))))]

    assert ["trial none-lost", "trial within", "trial within", "trial beyond"] == shapes


def test_trial_that_cannot_be_trusted_says_so() -> None:
    doubtful = Step(trial(10e6, 1, 0, invalid="a cat on the cable"), "MRR", (NARROW, NARROW))

    (mark,) = marks(drawn(Phase("initial", 1, 0.1, (doubtful,))))

    assert mark.get("aria-label").endswith("MRR; not trusted: a cat on the cable")


def test_trials_stand_where_they_ended() -> None:
    """They end after 1, 1.5 and 11.5 s, and higher rates lie higher."""
    (first, one), (second, two), (third, three) = map(place, marks(drawn()))

    assert LEFT < first < second < third <= RIGHT
    assert (second - LEFT) / (first - LEFT) == pytest.approx(1.5, rel=0.01)
    assert (third - LEFT) / (first - LEFT) == pytest.approx(11.5, rel=0.01)
    assert TOP <= one < two < three <= BOTTOM


def test_trial_outside_lies_at_the_edge_with_an_arrow() -> None:
    """100 Mpps is far above the last bounds, which are 8 to 12 Mpps."""
    outside, *within = marks(drawn())

    assert TOP == pytest.approx(place(outside)[1])
    assert [2, 1, 1] == [len(found(mark, "s:path[@class='run']")) for mark in (outside, *within)]


def test_bounds_move_when_the_trial_ends_that_moved_them() -> None:
    picture = drawn()
    trials = [place(mark) for mark in marks(picture)]
    ndr, pdr = (points(line) for line in found(picture, "//s:g[@clip-path]/s:path[@stroke]/@d"))

    assert {trials[1][0], trials[2][0], float(RIGHT)} == {x for x, _ in ndr} == {x for x, _ in pdr}
    upper, lower = pdr[:4], pdr[4:]
    assert 1 == len({y for _, y in upper})
    assert lower[1][0] == lower[2][0] == trials[2][0]
    assert lower[2][1] == trials[2][1]


def test_loss_ratios_differ_by_more_than_colour() -> None:
    dashes = found(drawn(), "//s:g[@clip-path]/s:path[@stroke]/@stroke-dasharray")

    assert 2 == len(set(dashes))


def test_names_at_the_end_never_cover_each_other() -> None:
    ratios = (0.0, 0.1, 0.2, 0.3)
    step = Step(trial(10e6, 1, 0), "", (NARROW,) * 4)

    heights = found(drawn(Phase("final", 1, 0.1, (step,)), ratios=ratios), f"//s:text[@x='{RIGHT + 26}']/@y")

    ordered = sorted(map(float, heights))
    assert all(high - low >= 12 for low, high in pairwise(ordered))
    assert 4 == len(ordered)


def test_phases_are_separated_and_named() -> None:
    names = found(drawn(), "//s:path[@class='phase']/../s:title/text()")

    assert ["initial", "final"] == names


def test_hostile_texts_stay_texts() -> None:
    phase = Phase(HOSTILE, 1, 0.1, (Step(trial(10e6, 1, 0, invalid=HOSTILE), HOSTILE, (NARROW, NARROW)),))

    picture = drawn(phase)

    assert [] == found(picture, "//s:script")
    (mark,) = marks(picture)
    assert SHOWN in mark.get("aria-label")


@pytest.mark.parametrize("simulated", [True, False])
def test_simulated_search_says_so(simulated: bool) -> None:
    assert simulated == ("SIMULATED" in search_graph.svg(PHASES, RATIOS, simulated=simulated))


@pytest.mark.parametrize(
    "phases",
    [
        (),
        (Phase("initial", 1, 0.1, ()),),
        (Phase("initial", 1, 0.1, (FIRST,)),),
        (Phase("initial", 1, 0.1, (Step(trial(10e6, 1, 0, elapsed_s=0.0), "", ()),)),),
        (Phase("final", 1, 0.1, (Step(trial(1e6, 1, 0), "", (Interval(1e6, 1e6),) * 2),)),),
    ],
)
def test_search_that_found_nothing_is_a_picture_too(phases: tuple[Phase, ...]) -> None:
    picture = etree.fromstring(search_graph.svg(phases, RATIOS).encode())

    assert f"0 0 {WIDTH} {HEIGHT}" == picture.get("viewBox")
    assert "nan" not in etree.tostring(picture).decode().lower()


EXTREME = (0.0, 5e-324, 1e308, sys.float_info.max)
rates = st.floats(1.0, 1e12) | st.floats(0.0, allow_infinity=False) | st.sampled_from(EXTREME)
times = st.floats(0, 1e6) | st.sampled_from(EXTREME)
intervals = st.builds(lambda one, other: Interval(min(one, other), max(one, other)), rates, rates)


@given(
    st.lists(
        st.builds(
            Step,
            st.builds(Trial, rates, st.just(1.0), times, st.just(100), st.integers(0, 100)),
            st.text(max_size=5),
            st.tuples(intervals, intervals) | st.just(()),
        ),
        max_size=5,
    )
)
def test_marks_never_leave_the_picture(steps: list[Step]) -> None:
    picture = etree.fromstring(search_graph.svg([Phase("any", 1.0, 0.1, tuple(steps))], RATIOS).encode())

    assert len(steps) == len(marks(picture))
    assert not [path for path in found(picture, "//s:path/@d") if "inf" in path or "nan" in path]
    for x, y in map(place, marks(picture)):
        assert LEFT <= x <= RIGHT
        assert TOP - 0.1 <= y <= BOTTOM + 0.1


def test_sentence_tells_what_the_graph_shows() -> None:
    assert (
        "3 trials in 2 phases took 11.5 s; NDR 8.0000 to 12.0000, PDR 50 % 10.0000 to 12.0000 Mpps"
        == search_graph.sentence(PHASES, RATIOS)
    )
    assert "1 trials in 1 phases took 1.0 s; no bound was found" == search_graph.sentence(
        [Phase("initial", 1, 0.1, (FIRST,))], RATIOS
    )


@pytest.mark.parametrize("kind", ["hard", "soft", "inconsistent"])
def test_file_stands_alone(kind: str, tmp_path: Path) -> None:
    result = simulated(kind)

    search_graph.write(result.phases, result.loss_ratios, tmp_path / "search.html", title=HOSTILE)

    page = html.document_fromstring((tmp_path / "search.html").read_text("utf-8"))
    assert [] == page.xpath("//script | //link | //img | //@src")
    assert len(result.trials) == len(page.xpath("//tbody/tr")) == len(page.xpath("//*[@tabindex]"))
    assert SHOWN == page.findtext(".//h1")
