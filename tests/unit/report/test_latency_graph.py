"""The percentile curves of latencies, read as the picture that they are."""

from __future__ import annotations

import re
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from perftrend.measurement import Latency, LoadLatency
from perftrend.report import latency_graph
from perftrend.report.search_graph import BOTTOM, LEFT, RIGHT, TOP

HISTOGRAM = ((10.0, 90), (100.0, 9), (2000.0, 1))
ONE = Latency(5.0, 20.0, 1000.0, HISTOGRAM)
LATENCIES = {
    "latency_10": LoadLatency(1e6, (ONE, ONE)),
    "latency_90": LoadLatency(9e6, invalid="the generator measured no latency"),
}
numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(min_value=-sys.maxsize, max_value=10**400)
histograms = st.lists(st.tuples(numbers, counts), max_size=4).map(tuple)
loads = st.builds(
    LoadLatency,
    numbers,
    st.lists(st.builds(Latency, numbers, numbers, numbers, histograms), max_size=3).map(tuple),
    st.sampled_from(["", "why"]),
)


def drawn(latencies: dict[str, LoadLatency], *, simulated: bool = False) -> etree._Element:
    return etree.fromstring(latency_graph.svg(latencies, simulated=simulated).encode())


def curves(picture: etree._Element) -> list[list[tuple[float, float]]]:
    paths = [element.get("d") or "" for element in picture.iter() if "curve" in (element.get("class") or "")]
    return [[(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path)] for path in paths]


def texts(picture: etree._Element) -> list[str]:
    return [element.text or "" for element in picture.iter("{*}text")]


def test_each_power_of_ten_of_frames_adds_a_nine() -> None:
    """90 and 99 of 100 frames are below a bound: 1 and 2 nines. The last class has the last frame only."""
    curve, other = curves(drawn(LATENCIES))

    middle = (LEFT + RIGHT) / 2
    assert curve == other
    assert [LEFT, middle, middle, RIGHT, RIGHT, RIGHT] == [x for x, _ in curve]


def test_level_is_the_bound_of_the_class_or_the_longest_latency() -> None:
    """10, 100 and 1,000 us are powers of ten, and equally far apart."""
    levels = sorted({y for _, y in curves(drawn(LATENCIES))[0]}, reverse=True)

    assert BOTTOM > levels[0]
    assert TOP < levels[-1]
    assert levels[0] - levels[1] == pytest.approx(levels[1] - levels[2], abs=0.11)
    assert 3 == len(levels)


def test_axes_have_round_labels() -> None:
    shown = texts(drawn(LATENCIES))

    assert ["0 %", "50 %", "90 %", "99 %"] == [text for text in shown if re.fullmatch(r"[\d.]+ %", text)]
    assert ["10", "20", "50", "100", "200", "500", "1000"] == [text for text in shown if text.isdecimal()]


@pytest.mark.parametrize(("lowest_us", "highest_us"), [(10.1, 10.3), (0.00101, 0.00103), (2.1e8, 2.2e8)])
def test_narrow_range_of_latencies_has_labels_that_differ(lowest_us: float, highest_us: float) -> None:
    latency = Latency(lowest_us, lowest_us, highest_us, histogram=((lowest_us, 90), (highest_us, 10)))
    picture = drawn({"latency_50": LoadLatency(20e6, (latency,))})

    labels = [element.text for element in picture.iter("{*}text") if element.get("x") == str(LEFT - 8)][:-1]
    assert len(labels) >= 2
    assert len(labels) == len(set(labels))


def test_load_without_a_valid_latency_is_named() -> None:
    shown = texts(drawn(LATENCIES))

    assert {"10 % of PDR", "90 % of PDR: not valid"} <= set(shown)
    assert "at 10 % of PDR 20 us on average; at 90 % of PDR not valid" == latency_graph.sentence(LATENCIES)


@pytest.mark.parametrize("simulated", [True, False])
def test_simulated_latency_is_marked(simulated: bool) -> None:
    assert simulated == ("SIMULATED" in texts(drawn(LATENCIES, simulated=simulated)))


@pytest.mark.parametrize("histogram", [(), ((10.0, 1),), ((10.0, 0), (20.0, 0))])
def test_without_a_histogram_there_is_no_curve(histogram: tuple[tuple[float, int], ...]) -> None:
    assert latency_graph.can_draw(LATENCIES)
    assert not latency_graph.can_draw({"latency_10": LoadLatency(1e6, (Latency(1, 2, 3, histogram),))})


@given(st.dictionaries(st.text(), loads, max_size=4))
def test_any_message_can_be_drawn(latencies: dict[str, LoadLatency]) -> None:
    if not latency_graph.can_draw(latencies):
        return
    for curve in curves(drawn(latencies)):
        assert all(LEFT <= x <= RIGHT and TOP <= y <= BOTTOM for x, y in curve)
        assert all(one[0] <= two[0] and one[1] >= two[1] for one, two in pairwise(curve))
