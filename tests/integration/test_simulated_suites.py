"""Suites that measure on the simulated testbed what a profile installed, for a patch and in a bisection."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.unit.cli.conftest import bench
from tests.unit.cli.test_bisectrun import Place, place
from tests.unit.cli.test_perftest import PROFILE, SUITE, simulated

__all__ = ("bench", "place", "simulated")  # fixtures


def test_perftest_compares_what_is_installed(simulated: Callable[..., Any], bench: Any) -> None:
    ended = simulated("--trial-multiplicity", "3")

    assert (1, True) == (ended.exit_code, "SIMULATED: The only test is slower by " in ended.out)
    archive = bench.archives / "perftrend-perftest-simulated" / "1"
    assert {"output.xml", "log.html", "console.log", "measured.json", "settings.yaml"} <= {
        entry.name for entry in (archive / "current" / "2").iterdir()
    }
    assert not list(archive.rglob("not-stored.json"))
    report = json.loads((bench.folder / "report" / "perftest.json").read_text())
    [test] = report["tests"]
    assert ("64b-1c-installed-mrr", [3] * 5) == (
        test["test"],
        [len(each["samples"]) for each in test["parent"]["rounds"]],
    )


def test_bisectrun_judges_what_is_installed_and_calls_it_simulated(place: Place, bench: Any) -> None:
    folder, installed = bench.folder, str(bench.folder / "installed")
    (folder / "profiles").mkdir()
    (folder / "profiles" / "rules.yaml").write_text(PROFILE.replace("PLACE", installed))
    (folder / "rules.robot").write_text(SUITE.replace("PLACE", installed))
    (folder / "settings.yaml").write_text(
        f"project: {{profile: rules, profiles: {folder}/profiles}}\nsuites: {folder}/rules.robot\n"
        "testbed: simulated\ntrial: {duration_s: 0.1, multiplicity: 3, starts: 1}\n"
    )
    hashes = [place.history.commit(f"Rules: {rules}", {"rules": f"{rules}\n"}) for rules in (5, 60, 60)]
    place.history.git("bisect", "start", hashes[2], hashes[0])

    ended = place.run()

    said = f'perftrend verdict: SIMULATED: {hashes[1][:12]} "Rules: 60" is like the new end, '
    assert (1, True) == (ended.exit_code, ended.out.splitlines()[-1].startswith(said)), ended.out
    assert list(place.own.glob(f"archives/perftrend-bisectrun-simulated/*/{hashes[1]}/1/output.xml"))
