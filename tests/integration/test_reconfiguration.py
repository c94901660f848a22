"""Devices get routes while real packets flow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from perftrend.measure import lock, specification
from perftrend.measure.procedure import Procedure
from perftrend.measure.specification import ReconfPlan, SearchPlan
from perftrend.measure.testbed import Testbed
from perftrend.measure.wiring import run
from tests.integration.quiet import interference

pytestmark = pytest.mark.packets

Require = Callable[[object, str], None]
SEARCH = SearchPlan(initial_duration_s=1, final_duration_s=1, minimum_pps=1_000)
PLAN = ReconfPlan({"routes": "200"}, SEARCH, rate_pps=10_000, duration_s=5)


@pytest.mark.parametrize(
    ("name", "count_command"),
    [
        ("1n-kernel", "ip route show | grep -c '^10[.][12]0[.][^ /]* via 192[.]0[.]2[.]'"),
        (
            "1n-ovs",
            "ovs-ofctl dump-flows unix:$(echo /tmp/perftrend-*/ovs-*/perftrend.mgmt) | grep -c nw_dst",
        ),
    ],
    ids=["kernel", "ovs"],
)
def test_routes_are_added_while_every_frame_is_counted(
    name: str,
    count_command: str,
    require: Require,
    require_quiet: Callable[[str], None],
    tmp_path: Path,
) -> None:
    spec = specification.load(name)
    testbed = Testbed(spec)
    require(not testbed.unusable(), testbed.unusable())
    with lock.hold(spec.lock, wait_s=600), testbed:
        testbed.start_device({"routes": "10"})
        testbed.use("64B")
        assert "" == testbed.lacks_change(PLAN.changes)

        measurement = Procedure(testbed, tmp_path / "counters.json", tmp_path).reconf(PLAN)

        routes = run(testbed._wiring.at_device(["sh", "-c", count_command]))
        require_quiet(interference(measurement.invalid))
        assert "" == measurement.invalid
        found = measurement.reconfiguration
        assert found is not None
        assert 200 == int(routes)
        baseline, trial = (trial for trial in measurement.trials if not trial.invalid)
        assert [50_000, 50_000] == [baseline.sent, trial.sent]
        assert (found.baseline_lost, found.lost) == (50_000 - baseline.received, 50_000 - trial.received)
        assert found.duration_s > 0
        counters = json.loads((tmp_path / measurement.counters).read_text())["reconf"]
        assert {"rate_pps", "before", "after"} == set(counters)
