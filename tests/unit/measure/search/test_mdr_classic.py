"""The documented MDR search, trial by trial, on tables that were worked out by hand.

All tables have the loss ratios 0 (NDR) and 0.25 (PDR) and a relative width of 0.5, so one width
is a factor of 2 in rate, and the middle of 64 and 256 is 128. A row is a trial: the rate and the
duration that the search must ask for, the frames sent, and those of them that are lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pytest

from perftrend.measure.search import mdr_search
from perftrend.measurement import Interval, Trial

Bound = tuple[float, float]


class Row(NamedTuple):
    rate: float
    duration: float
    sent: int
    lost: int


@dataclass(frozen=True)
class Scenario:
    name: str
    rows: list[Row]
    ndr: Bound
    pdr: Bound
    minimum: float = 1.0
    maximum: float = 65536.0
    initial: float = 1.0
    final: float = 1.0
    intermediate: int = 0


def row(rate: float, duration: float, sent: int, lost: int) -> Row:
    return Row(rate, duration, sent, lost)


SCENARIOS = [
    Scenario(
        "the initial phase may leave nothing to do",
        [
            row(65536, 1, 65536, 65024),  # receives 512: the MRR
            row(512, 1, 512, 256),  # receives 256: the MRR2
            row(256, 1, 256, 0),
        ],
        ndr=(256, 512),
        pdr=(256, 512),
    ),
    Scenario(
        "1. NDR lower bound lost: two widths down, then internal search",
        [
            row(65536, 1, 65536, 65024),
            row(512, 1, 512, 256),
            row(256, 1, 256, 32),  # passes PDR, fails NDR
            row(64, 1, 64, 0),  # 256 / 2**2; NDR is (64, 256)
            row(128, 1, 128, 0),
        ],
        ndr=(128, 256),
        pdr=(256, 512),
    ),
    Scenario(
        "1. each external step doubles the width",
        [
            row(65536, 1, 65536, 65024),
            row(512, 1, 512, 256),
            row(256, 1, 256, 32),
            row(64, 1, 64, 1),  # NDR is (64, 256), a width of 4, not valid
            row(4, 1, 4, 0),  # 64 / 4**2; NDR is (4, 64)
            row(16, 1, 16, 1),
            row(8, 1, 8, 1),
        ],
        ndr=(4, 8),
        pdr=(256, 512),
    ),
    Scenario(
        "2. PDR lower bound lost when measured longer",
        [
            # The first of two phases has a width goal of 4.
            row(65536, 1, 65536, 64512),
            row(1024, 1, 1024, 768),
            row(256, 1, 256, 32),
            row(16, 1, 16, 0),  # NDR is (16, 256)
            row(64, 1, 64, 0),  # NDR is (64, 256), PDR (256, 1024)
            row(128, 4, 512, 0),  # second phase, internal: NDR is (128, 256)
            row(512, 4, 2048, 1024),  # PDR is (256, 512)
            row(256, 4, 1024, 512),  # measured again: fails PDR too
            row(64, 4, 256, 0),  # 256 / 2**2; PDR is (64, 256), NDR stays
            row(128, 4, 512, 0),
        ],
        ndr=(128, 256),
        pdr=(128, 256),
        final=4,
        intermediate=1,
    ),
    Scenario(
        "3. NDR upper bound lost nothing: two widths up, which serves PDR too",
        [
            row(65536, 1, 65536, 65024),
            row(512, 1, 512, 0),  # no loss at the MRR: the interval opens upwards
            row(1024, 1, 1024, 0),
            row(4096, 1, 4096, 2048),  # 1024 * 2**2; both are (1024, 4096)
            row(2048, 1, 2048, 1024),
        ],
        ndr=(1024, 2048),
        pdr=(1024, 2048),
    ),
    Scenario(
        "4. PDR upper bound lost too little: two widths up",
        [
            row(65536, 1, 65536, 65024),
            row(512, 1, 512, 64),
            row(256, 1, 256, 0),
            row(2048, 1, 2048, 1024),  # 512 * 2**2; PDR is (512, 2048)
            row(1024, 1, 1024, 512),
        ],
        ndr=(256, 512),
        pdr=(512, 1024),
    ),
    Scenario(
        "5. and 6. internal search for NDR before that for PDR",
        [
            row(65536, 1, 65536, 64512),
            row(1024, 1, 1024, 960),  # receives 64: an interval four widths wide
            row(64, 1, 64, 0),
            row(256, 1, 256, 32),  # NDR is (64, 256), PDR (256, 1024)
            row(128, 1, 128, 0),
            row(512, 1, 512, 64),
        ],
        ndr=(128, 256),
        pdr=(512, 1024),
    ),
    Scenario(
        "7. what was measured for a shorter time is measured again, the lower bound first",
        [
            row(65536, 1, 65536, 65024),
            row(512, 1, 512, 256),
            row(256, 1, 256, 0),
            row(256, 4, 1024, 0),
            row(512, 4, 2048, 1024),
        ],
        ndr=(256, 512),
        pdr=(256, 512),
        final=4,
    ),
    Scenario(
        "7. an upper bound that passes when measured again is looked for above",
        [
            row(65536, 1, 65536, 65024),
            row(512, 1, 512, 256),
            row(256, 1, 256, 0),
            row(256, 4, 1024, 0),
            row(512, 4, 2048, 256),  # fails NDR, passes PDR
            row(2048, 4, 8192, 4096),
            row(1024, 4, 4096, 2048),
        ],
        ndr=(256, 512),
        pdr=(512, 1024),
        final=4,
    ),
    Scenario(
        "durations in geometric sequence, widths halved from phase to phase",
        [
            row(65536, 1, 65536, 61440),  # receives 4096
            row(4096, 1, 4096, 3840),  # receives 256: the goal of the first phase, 2**4, is met
            row(256, 1, 256, 0),
            row(1024, 4, 4096, 0),  # the second of three phases: 4 s, the middle of 1 and 16
            row(4096, 4, 16384, 8192),
            row(2048, 16, 32768, 16384),
            row(1024, 16, 16384, 0),
        ],
        ndr=(1024, 2048),
        pdr=(1024, 2048),
        final=16,
        intermediate=2,
    ),
    Scenario(
        "deviation 2: the maximum rate is a valid upper bound although nothing is lost",
        [
            row(1024, 1, 1024, 0),
            row(512, 1, 512, 0),  # the third trial would be at the maximum again
            row(512, 4, 2048, 0),
            row(1024, 4, 4096, 0),
        ],
        ndr=(512, 1024),
        pdr=(512, 1024),
        maximum=1024,
        final=4,
    ),
    Scenario(
        "deviation 2: no rate above the maximum",
        [
            row(2592, 1, 2592, 2080),
            row(512, 1, 512, 0),
            row(1024, 1, 1024, 0),
            row(2592, 1, 2592, 0),  # not 4096; the interval is (1024, 2592)
            row(1629.1716, 1, 1629, 0),  # 32 * 50.9117: the root of 1024 * 2592
        ],
        ndr=(1629.1716, 2592),
        pdr=(1629.1716, 2592),
        maximum=2592,
    ),
    Scenario(
        "deviation 3: no rate below the minimum; not refined until measured again",
        [
            row(65536, 1, 65536, 64512),
            row(1024, 1, 1024, 768),
            row(256, 1, 256, 128),
            row(100, 1, 100, 12),  # not 16; fails NDR, passes PDR: both are (100, 256)
            row(160, 4, 640, 320),  # second phase: PDR is refined, NDR is not
            row(100, 4, 400, 0),  # measured again: NDR is valid now
        ],
        ndr=(100, 160),
        pdr=(100, 160),
        minimum=100,
        final=4,
        intermediate=1,
    ),
    Scenario(
        "deviation 4: a pass above a valid upper bound does not move it",
        [
            row(65536, 1, 65536, 65024),
            row(512, 1, 512, 64),
            row(256, 1, 256, 0),
            row(2048, 1, 2048, 0),  # PDR looks above; NDR has failed at 512 and stays
            row(32768, 1, 32768, 16384),  # 2048 * 4**2
            row(8192, 1, 8192, 4096),
            row(4096, 1, 4096, 2048),
        ],
        ndr=(256, 512),
        pdr=(2048, 4096),
    ),
    Scenario(
        "deviation 4: a failure below a valid lower bound takes its place",
        [
            row(65536, 1, 65536, 65024),
            row(512, 1, 512, 256),
            row(256, 1, 256, 32),  # PDR is (256, 512) and valid
            row(64, 1, 64, 32),  # NDR looks below; PDR is (64, 512) now, and not valid
            row(4, 1, 4, 0),  # both are (4, 64)
            row(16, 1, 16, 0),
            row(32, 1, 32, 0),
        ],
        ndr=(32, 64),
        pdr=(32, 64),
    ),
    Scenario(
        "deviation 5: the initial trials keep one width apart",
        [
            row(65536, 1, 65536, 6),  # receives 65530
            row(32768, 1, 32768, 8),  # not 65530; receives 32760
            row(16384, 1, 16384, 0),  # not 32760
            row(65536, 1, 65536, 6),  # PDR upper bound passed: 32768 * 2**2 is above the maximum
        ],
        ndr=(16384, 32768),
        pdr=(32768, 65536),
    ),
    Scenario(
        "deviation 5: an external step from a narrow interval is as wide as the goal",
        [
            row(3000, 1, 3000, 1900),
            row(1100, 1, 1100, 0),
            row(2200, 1, 2200, 0),
            row(3000, 4, 12000, 1500),  # both are (2200, 3000), a width of 1.36
            row(2200, 4, 8800, 1100),  # measured again: fails NDR
            row(1100, 4, 4400, 0),  # 2200 / 2, not 2200 / 1.36**2
        ],
        ndr=(1100, 2200),
        pdr=(2200, 3000),
        maximum=3000,
        final=4,
    ),
    Scenario(
        "nothing comes back, down to the minimum and up again",
        [
            row(64, 1, 64, 64),
            row(1, 1, 1, 0),  # the rate received was 0
            row(2, 1, 2, 2),  # there is no room below
        ],
        ndr=(1, 2),
        pdr=(1, 2),
        maximum=64,
    ),
]


def play(scenario: Scenario) -> tuple[Interval, Interval, list[Bound]]:
    """Answer with the rows, whatever is asked, and return what was found and what was asked."""
    asked: list[Bound] = []

    def measure(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        rate, duration, sent, lost = scenario.rows[len(asked)]
        asked.append((rate_pps, duration_s))
        assert pytest.approx((rate, duration), rel=1e-5) == asked[-1], f"row {len(asked)}"
        return Trial(rate_pps, duration_s, duration_s, sent, sent - lost)

    result = mdr_search(
        measure,
        strategy="mdr",
        minimum_pps=scenario.minimum,
        maximum_pps=scenario.maximum,
        loss_ratios=(0.0, 0.25),
        initial_duration_s=scenario.initial,
        final_duration_s=scenario.final,
        relative_width=0.5,
        intermediate_phases=scenario.intermediate,
    )
    return result.interval(0.0), result.interval(0.25), asked


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_search_asks_and_concludes_as_the_table_says(scenario: Scenario) -> None:
    ndr, pdr, asked = play(scenario)

    assert len(scenario.rows) == len(asked)
    assert pytest.approx(scenario.ndr, rel=1e-5) == (ndr.lower, ndr.upper)
    assert pytest.approx(scenario.pdr, rel=1e-5) == (pdr.lower, pdr.upper)
    assert ("", "") == (ndr.invalid, pdr.invalid)
