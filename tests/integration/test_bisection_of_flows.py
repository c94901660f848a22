"""A bisection of a configuration: OpenFlow rules of Open vSwitch, which commits of a repository change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from perftrend.errors import EXIT_TESTBED
from perftrend.measure import ovs_network, specification
from perftrend.measure.testbed import Testbed
from perftrend.measure.wiring import VethPairs
from tests.integration.test_bisection import Job
from tests.products.histories import History

pytestmark = pytest.mark.packets

BLOCKED = [f"priority=10,udp,tp_dst={port},actions=drop" for port in (53, 123, 161)]
MORE_BLOCKED = [f"priority=10,udp,tp_dst={port},actions=drop" for port in range(2000, 2200)]
"""Their masks are alike, so many of them cost no more than one."""
BASE_RULES = int((specification.load("1n-ovs").device.options or {})["base_rules"])
OWN_RULES = 112
OWN_MASKS = list(ovs_network.rules(VethPairs().links, {"acl_rules": str(BASE_RULES + OWN_RULES)}))[
    BASE_RULES : BASE_RULES + OWN_RULES
]
"""Rules that the testbed does not have yet: each gives the flow of one more host a mask of its own."""
SETTINGS = """
project: {{profile: ovs-flows, repository: {repository}}}
tags: [mrrAND64bAND1cANDethip4-ip4base]
bisect: {{maximum_changes: 1}}
"""
BRIEF = {
    "PERFTREND_TRIAL_DURATION_S": "0.25",
    "PERFTREND_TRIAL_MULTIPLICITY": "4",
    "PERFTREND_TRIAL_STARTS": "2",
}


def rules(*lists: list[str]) -> Mapping[str, str]:
    return {"flows.txt": "".join(f"{rule}\n" for each in lists for rule in each)}


@pytest.mark.measure
@pytest.mark.slow
def test_commit_whose_rules_slow_the_switch_down_is_named(
    tmp_path: Path,
    require: Callable[[object, str], None],
    require_quiet: Callable[[str], None],
    record_property: Callable[[str, object], None],
) -> None:
    reason = Testbed(specification.load("1n-ovs")).unusable()
    require(not reason, reason)
    history = History(tmp_path / "configuration")
    hashes = [
        history.commit("Block three services", rules(["# Services"], BLOCKED)),
        history.commit("Block 200 more services", rules(["# Services"], BLOCKED, MORE_BLOCKED)),
        history.commit("Explain the services", rules(["# Not for hosts"], BLOCKED, MORE_BLOCKED)),
        history.commit("Block 112 hosts", rules(["# Not for hosts"], BLOCKED, MORE_BLOCKED, OWN_MASKS)),
        history.commit("Unblock the 200 services", rules(["# Not for hosts"], BLOCKED, OWN_MASKS)),
    ]
    job = Job(tmp_path / "work", SETTINGS.format(repository=history.folder), "1n-ovs", BRIEF)

    ended = job.run("--old", hashes[0], "--new", hashes[-1])
    require_quiet(ended.stdout if ended.returncode == EXIT_TESTBED else "")
    record_property("measured", ended.stdout)

    assert 1 == ended.returncode, ended.stdout + ended.stderr
    assert [[hashes[3]]] == [each["commits"] for each in job.report()["culprits"]], ended.stdout
    assert '"Block 112 hosts" made the only test slower by ' in ended.stdout.splitlines()[-1]


@pytest.mark.measure
@pytest.mark.slow
def test_commit_with_a_line_that_the_switch_refuses_is_named(
    tmp_path: Path, require: Callable[[object, str], None], require_quiet: Callable[[str], None]
) -> None:
    reason = Testbed(specification.load("1n-ovs")).unusable()
    require(not reason, reason)
    history = History(tmp_path / "configuration")
    good = history.commit("Block three services", rules(BLOCKED))
    bad = history.commit("Block a host", rules(BLOCKED, ["ip,nw_src=10.10.0.30,actions=dropp"]))
    job = Job(tmp_path / "work", SETTINGS.format(repository=history.folder), "1n-ovs", BRIEF)

    ended = job.run("--old", good, "--new", bad)
    require_quiet(ended.stdout if ended.returncode == EXIT_TESTBED else "")

    assert 1 == ended.returncode, ended.stdout + ended.stderr
    assert [[bad]] == [each["commits"] for each in job.report()["culprits"]], ended.stdout
    assert "flows.txt', line 4: " in ended.stdout
