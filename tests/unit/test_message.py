"""Sentences for people, and one line of JSON that gives the measurement back."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend import message
from perftrend.errors import ArchiveError
from perftrend.measurement import (
    CriticalLoad,
    GeneratorHealth,
    HeldRate,
    Interval,
    Latency,
    LoadLatency,
    Measurement,
    Phase,
    Reconfiguration,
    Step,
    Trial,
)

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "formats" / "message.schema.json"
SCHEMA = jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))

MRR = Measurement(
    kind="mrr",
    testbed="1n-veth",
    frame="64B",
    frame_bytes=64.0,
    started=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    finished=datetime(2026, 1, 2, 3, 5, 6, 700000, tzinfo=UTC),
    samples=(17823451.0, 17799021.5),
)
NDRPDR = replace(
    MRR,
    kind="ndrpdr",
    samples=(),
    intervals={"ndr": Interval(12345678.0, 12407406.4), "pdr": Interval(13000000.0, 13065000.0)},
)

BAD_TRIAL = Trial(1e7, 1.0, 1.0, 9_000_000, 9_000_000, invalid="the generator was too slow")
TRIALS = (BAD_TRIAL, replace(BAD_TRIAL, invalid=""), Trial(5e6, 30.0, 30.0, 150_000_000, 150_000_000))
KNOWN = (Interval(5e6, 1e7), Interval(5e6, 1e7, "the upper bound does not exceed loss ratio 0.5"))
SEARCH = replace(
    NDRPDR,
    trials=TRIALS,
    loss_ratios={"ndr": 0.0, "pdr": 0.5},
    phases=(
        Phase("initial", 1.0, 0.02, (Step(TRIALS[1], "maximum rate", ()),)),
        Phase("final", 30.0, 0.01, (Step(TRIALS[2], "lower bound of 0 was measured briefly", KNOWN),)),
    ),
)
SOAK = replace(
    NDRPDR,
    kind="soak",
    intervals={"soak": Interval(9e6, 11e6)},
    critical_load=CriticalLoad(10e6, target_loss_ratio=1e-7, credibility=0.95),
)
HOLD = replace(
    MRR,
    kind="hold",
    held=HeldRate(
        10e6, loss_ratio=1.25e-8, loss_ratio_limit=2e-8, confidence=0.95, lossy_slices=2, bursty=False
    ),
)

RECONF = replace(
    NDRPDR,
    kind="reconf",
    intervals={"ndr": Interval(10e6, 10.05e6)},
    reconfiguration=Reconfiguration(9e6, {"routes": "10000"}, duration_s=0.25, lost=1107, baseline_lost=0),
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(min_value=0, max_value=10**15)
moments = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]))
intervals = st.builds(Interval, numbers, numbers, texts)
histograms = st.lists(st.tuples(numbers, counts), max_size=2).map(tuple)
latencies = st.builds(Latency, numbers, numbers, numbers, histograms)
healths = st.builds(GeneratorHealth, st.none() | numbers, st.none() | numbers, st.none() | counts)
all_trials = st.builds(
    Trial,
    numbers,
    numbers,
    numbers,
    counts,
    counts,
    texts,
    unsent=st.none() | counts,
    unsent_each=st.lists(counts, max_size=2).map(tuple),
    generator_health=st.none() | healths,
)


@st.composite
def searches(draw: st.DrawFn) -> dict[str, Any]:
    """Draw trials, and phases whose steps took some of them."""
    trials = draw(st.lists(all_trials, max_size=6))
    loss_ratios = draw(st.dictionaries(texts, numbers, max_size=3))
    known = st.tuples(*[intervals] * len(loss_ratios))
    steps = [Step(one, draw(texts), draw(st.just(()) | known)) for one in trials if draw(st.booleans())]
    cut = draw(st.integers(0, len(steps)))
    parts = (steps[:cut], steps[cut:]) if loss_ratios else ()
    phases = [Phase(draw(texts), draw(numbers), draw(numbers), tuple(part)) for part in parts]
    return {"trials": tuple(trials), "loss_ratios": loss_ratios, "phases": tuple(phases)}


@st.composite
def measurements_of_all_kinds(draw: st.DrawFn) -> Measurement:
    search = draw(st.just({}) | searches())
    return replace(draw(plain_measurements), **search)


plain_measurements = st.builds(
    Measurement,
    kind=st.sampled_from(["mrr", "ndrpdr", "binary", "soak", "hold", "reconf"]),
    testbed=texts,
    frame=texts,
    frame_bytes=numbers,
    started=moments,
    finished=moments,
    samples=st.lists(numbers, max_size=5).map(tuple),
    intervals=st.dictionaries(texts, intervals, max_size=3),
    trials=st.lists(all_trials, max_size=3).map(tuple),
    strategy=st.sampled_from(["", "mdr", "predictive", "binary"]),
    conditional_throughput_pps=st.dictionaries(texts, numbers, max_size=3),
    latency=st.dictionaries(
        texts,
        st.builds(
            LoadLatency,
            numbers,
            st.lists(latencies, max_size=2).map(tuple),
            texts,
        ),
        max_size=3,
    ),
    cycles_per_packet=st.dictionaries(texts, numbers, max_size=3),
    critical_load=st.none() | st.builds(CriticalLoad, numbers, numbers, numbers, counts),
    held=st.none() | st.builds(HeldRate, numbers, numbers, numbers, numbers, counts, st.booleans()),
    reconfiguration=st.none()
    | st.builds(
        Reconfiguration,
        st.floats(min_value=1e-3, allow_infinity=False),
        st.dictionaries(texts, texts, max_size=2),
        numbers,
        counts,
        counts,
    ),
    counters=texts,
    versions=st.dictionaries(texts, texts, max_size=3),
    invalid=texts,
    simulated=st.booleans(),
)
measurements = measurements_of_all_kinds()


@given(measurements)
def test_what_was_rendered_is_read_back(measurement: Measurement) -> None:
    assert measurement == message.parse(message.render(measurement))


@given(measurements)
def test_rendered_json_follows_the_published_schema(measurement: Measurement) -> None:
    line = message.render(measurement).split("\n")[-1]

    SCHEMA.validate(json.loads(line.removeprefix(message.MARKER)))


@given(measurements)
def test_json_is_one_line_of_plain_ascii(measurement: Measurement) -> None:
    """Whatever a device calls its version, XML and terminals leave the line as it is."""
    line = message.render(measurement).split("\n")[-1]

    assert line.startswith("perftrend: {")
    assert line.isascii()
    assert line.isprintable()


def test_mrr_is_said_in_the_established_form() -> None:
    first = message.render(MRR).split("\n")[0]

    assert "Maximum Receive Rate trial results in packets per second: [17823451.0, 17799021.5]" == first


def test_search_is_said_in_the_established_form() -> None:
    """8.296 = 12,345,678 frames of 64 + 20 bytes, 8 bits each, in 10^9 bits."""
    lines = message.render(NDRPDR).split("\n")

    assert [
        "NDR_LOWER: 12345678.0 pps, 8.296 Gbps",
        "NDR_UPPER: 12407406.4 pps, 8.338 Gbps",
        "PDR_LOWER: 13000000.0 pps, 8.736 Gbps",
        "PDR_UPPER: 13065000.0 pps, 8.780 Gbps",
    ] == lines[:-1]


@pytest.mark.parametrize(
    ("measurement", "sentence"),
    [
        (
            replace(MRR, invalid="the generator was\ntoo slow."),
            "This result is not valid: the generator was too slow.",
        ),
        (replace(MRR, simulated=True), "This result is simulated: no packet was sent."),
        (
            replace(NDRPDR, intervals={"ndr": Interval(1.0, 2.0, invalid="loss at the minimum rate")}),
            "NDR is not valid: loss at the minimum rate.",
        ),
    ],
)
def test_people_read_what_cannot_be_trusted(measurement: Measurement, sentence: str) -> None:
    assert sentence in message.render(measurement).split("\n")


@pytest.mark.parametrize(
    ("measurement", "sentences"),
    [
        (
            replace(NDRPDR, intervals={}, conditional_throughput_pps={"pdr": 12345678.0}),
            ["PDR conditional throughput: 12345678.0 pps, 8.296 Gbps"],
        ),
        (
            replace(
                NDRPDR,
                intervals={},
                latency={
                    "latency_50": LoadLatency(6e6, (Latency(6.1, 12.5, 61.0), Latency(6.0, 12.25, 58.0))),
                    "latency_90": LoadLatency(9e6, invalid="the generator measured no latency"),
                },
            ),
            [
                "Latency at 50% PDR: ['6.1/12.5/61', '6/12.25/58'] usec [min/avg/max] per stream",
                "Latency at 90% PDR is not valid: the generator measured no latency.",
            ],
        ),
        (
            replace(NDRPDR, intervals={}, cycles_per_packet={"ip4-lookup": 30.25, "\nperftrend: {}": 1.0}),
            ["Cycles per packet: ip4-lookup 30.25"],
        ),
        (
            SOAK,
            [
                "SOAK_LOWER: 9000000.0 pps, 6.048 Gbps",
                "SOAK_UPPER: 11000000.0 pps, 7.392 Gbps",
                "Critical load: 10000000.0 pps, 6.720 Gbps, within these bounds with a probability of 0.95; "
                "1e-07 of its frames are lost on average.",
            ],
        ),
        (
            replace(SOAK, intervals={}, critical_load=CriticalLoad(10e6, 1e-7, 0.9, hiccups=3)),
            [
                "Critical load: 10000000.0 pps, 6.720 Gbps, within these bounds with a probability of 0.9; "
                "1e-07 of its frames are lost on average.",
                "Trials that lost frames which their rate does not explain: 3.",
            ],
        ),
        (
            HOLD,
            [
                "Held rate: 10000000.0 pps, 6.720 Gbps, loss ratio 1.25e-08, on average at most 2e-08 "
                "with a confidence of 0.95.",
            ],
        ),
        (
            replace(HOLD, held=HeldRate(10e6, 0.1, 0.2, 0.9, lossy_slices=1, bursty=True)),
            [
                "Held rate: 10000000.0 pps, 6.720 Gbps, loss ratio 0.1, on average at most 0.2 "
                "with a confidence of 0.9.",
                "Frames were lost in bursts, so the average loss ratio may be higher.",
            ],
        ),
        (
            RECONF,
            [
                "NDR_LOWER: 10000000.0 pps, 6.720 Gbps",
                "NDR_UPPER: 10050000.0 pps, 6.754 Gbps",
                "Reconfiguration: routes=10000 in 0.250 s at 9000000.0 pps, 6.048 Gbps",
                "Packets lost due to reconfig: 1107",
                "Implied time lost: 0.000123",
            ],
        ),
        (
            replace(RECONF, intervals={}, reconfiguration=Reconfiguration(1e6, {"routes": "9"}, 0.5, 50, 60)),
            [
                "Reconfiguration: routes=9 in 0.500 s at 1000000.0 pps, 0.672 Gbps",
                "Packets lost due to reconfig: 50",
                "Implied time lost: 5e-05",
                "Packets lost in the same time without it: 60",
            ],
        ),
    ],
)
def test_what_takes_long_is_said_in_sentences(measurement: Measurement, sentences: list[str]) -> None:
    assert sentences == message.render(measurement).split("\n")[:-1]


def test_sentence_that_looks_like_the_json_is_not_taken_for_it() -> None:
    measurement = replace(MRR, invalid='\nperftrend: {"schema":1}')

    assert measurement == message.parse(message.render(measurement))


def test_text_around_the_line_does_not_matter() -> None:
    text = f"Setup failed:\nno carrier\n\n{message.render(MRR)}\n\nAlso teardown failed:\nno route"

    assert message.parse(text) == MRR


def test_last_of_several_measurements_counts() -> None:
    assert message.parse(f"{message.render(MRR)}\n{message.render(NDRPDR)}") == NDRPDR


@pytest.mark.parametrize("text", ["", "AssertionError", "perftrend: no route", " perftrend: {}"])
def test_text_without_the_line_is_no_measurement(text: str) -> None:
    assert message.parse(text) is None


def _line(**changes: Any) -> str:
    fields = {**message.document(MRR), **changes}
    return message.MARKER + json.dumps({name: value for name, value in fields.items() if value is not ...})


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("perftrend: {", "broken"),
        (message.render(MRR)[:-20], "broken"),
        ("perftrend: {}", "has the schema version"),
        ("perftrend: " + '{"a":' * 100_000, "broken"),
        (_line(schema=2), "of schema 2, but this perftrend knows 1; upgrade perftrend"),
        (_line(schema=True), "has the schema version"),
        (_line(frame=...), "frame: "),
        (_line(samples=[1, "2"]), "samples.1: "),
        (_line(samples=[float("nan")]), "broken"),
        (_line(started="yesterday"), "started: "),
        (_line(critical_load={"rate_pps": 1e6}), "critical_load.target_loss_ratio: "),
        (_line(held=3), "held: "),
        (_line(started="2026-01-02T03:04:05"), "no time zone"),
    ],
)
def test_broken_line_is_refused_in_one_line(text: str, reason: str) -> None:
    with pytest.raises(ArchiveError) as refusal:
        message.parse(text)

    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_field_of_a_later_perftrend_is_passed_over() -> None:
    assert message.parse(_line(colour="blue")) == MRR


def test_number_that_is_none_is_not_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        message.render(replace(MRR, samples=(float("nan"),)))


def test_time_without_a_zone_is_not_written() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        message.render(replace(MRR, started=datetime(2026, 1, 2)))  # noqa: DTZ001 - that is the point


def test_step_names_its_trial_by_the_place_among_all() -> None:
    """The first trial was measured again; a bound that is not valid says why."""
    initial, final = message.document(SEARCH)["phases"]

    assert [{"trial": 1, "reason": "maximum rate", "bounds": []}] == initial["steps"]
    (step,) = final["steps"]
    assert 2 == step["trial"]
    assert [[5e6, 1e7], [5e6, 1e7, "the upper bound does not exceed loss ratio 0.5"]] == step["bounds"]


def test_message_without_phases_is_that_of_an_older_perftrend() -> None:
    fields = message.document(MRR)

    assert not {
        "phases",
        "loss_ratios",
        "strategy",
        "conditional_throughput_pps",
        "latency",
        "critical_load",
        "held",
    } & set(fields)
    assert MRR == message.measurement_of(fields)


def test_step_whose_trial_is_not_among_the_trials_is_not_written() -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        message.render(replace(SEARCH, trials=TRIALS[:2]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"trial": 3}, "phases.1.steps.0.trial: 3 is not a trial after that of the previous step"),
        ({"trial": 1}, "phases.1.steps.0.trial: 1 is not a trial after that of the previous step"),
        ({"trial": -1}, "phases.1.steps.0.trial: -1 is not a trial"),
        ({"trial": "2"}, "phases.1.steps.0.trial: "),
        ({"bounds": [[5e6, 1e7]]}, "phases.1.steps.0.bounds: 1 given; expected one for each loss ratio"),
        ({"bounds": [[5e6], [5e6, 1e7]]}, "phases.1.steps.0.bounds.0"),
        ({"bounds": [[5e6, float("nan")], [5e6, 1e7]]}, "broken"),
        ({"reason": None}, "phases.1.steps.0.reason: "),
    ],
)
def test_broken_step_is_refused(change: dict[str, Any], reason: str) -> None:
    fields = message.document(SEARCH)
    fields["phases"][1]["steps"][0] |= change

    with pytest.raises(ArchiveError) as refusal:
        message.parse(message.MARKER + json.dumps(fields))

    assert reason in str(refusal.value)


def test_what_a_driver_does_not_know_of_a_trial_is_left_out() -> None:
    known = replace(BAD_TRIAL, unsent=0, generator_health=GeneratorHealth(load=0.5))

    first, second = message.document(replace(MRR, trials=(BAD_TRIAL, known)))["trials"]

    assert {"unsent", "generator_health"}.isdisjoint(first)
    assert (0, {"load": 0.5}) == (second["unsent"], second["generator_health"])


def test_trial_of_an_older_version_is_read() -> None:
    fields = message.document(SEARCH)
    for trial in fields["trials"]:
        del trial["unsent_each"]

    assert SEARCH == message.measurement_of(fields)


@pytest.mark.parametrize("phases", [{}, None, [1], "final"])
def test_phases_of_another_form_are_refused(phases: object) -> None:
    with pytest.raises(ArchiveError, match=r"wrong: phases"):
        message.parse(_line(phases=phases))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"loss_ratios": None}, "phases: given without loss ratios"),
        ({"received": 10**400}, "trials.0: frames are counted from 0"),
        ({"sent": -1}, "trials.0: frames are counted from 0"),
    ],
)
def test_search_that_cannot_be_drawn_is_refused(change: dict[str, Any], reason: str) -> None:
    fields = message.document(SEARCH)
    fields["trials"][0] |= {name: value for name, value in change.items() if name != "loss_ratios"}
    if "loss_ratios" in change:
        del fields["loss_ratios"]
        for phase in fields["phases"]:
            phase["steps"] = []

    with pytest.raises(ArchiveError, match=reason):
        message.measurement_of(fields)
