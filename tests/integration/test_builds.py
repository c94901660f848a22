"""Commits of a product are built by git and the profile, and measured on real packets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perftrend.archive import read_output
from perftrend.builds import Builds, BuiltCommit, load, open_builds
from perftrend.clients.git import Repository
from perftrend.errors import EXIT_PASS, EXIT_TESTBED, BuildError, TestbedError
from perftrend.measure import lock, specification
from perftrend.measure.testbed import Testbed
from perftrend.settings import ProjectSettings
from tests.integration.quiet import interference
from tests.products.router import RouterProduct

Require = Callable[[object, str], None]

ROOT = Path(__file__).parents[2]
SLOW_RULES = 150


@pytest.fixture
def product(tmp_path: Path) -> RouterProduct:
    return RouterProduct(tmp_path / "product")


@pytest.fixture
def project(product: RouterProduct, tmp_path: Path) -> ProjectSettings:
    return ProjectSettings(
        profile="embedded-router", repository=str(product.folder), builds=tmp_path / "builds"
    )


@pytest.fixture
def on_veth(require: Require) -> Iterator[Callable[[BuiltCommit], Testbed]]:
    """Give what makes the testbed of a build; it is this test's alone."""
    spec = specification.load("1n-veth")
    reason = Testbed(spec).unusable()
    require(not reason, reason)
    with lock.hold(spec.lock, wait_s=600):
        yield lambda built: Testbed(spec, device_options=built.device_options)


@pytest.mark.packets
def test_each_commit_forwards_every_frame_under_its_own_version(
    product: RouterProduct,
    project: ProjectSettings,
    on_veth: Callable[[BuiltCommit], Testbed],
    require_quiet: Callable[[str], None],
) -> None:
    commits = [product.commit(0), product.commit(SLOW_RULES)]
    with open_builds(project) as builds:
        for commit in commits:
            built = builds.build(commit)
            builds.install(built)
            with on_veth(built) as testbed:
                testbed.start_device({"acl_rules": "0"})
                testbed.use("64B")
                trial = testbed.trials.measure(5_000, 0.3)
                require_quiet(interference(trial.invalid))

                assert (1500, 1500, "") == (trial.sent, trial.received, trial.invalid)
                assert commit == testbed.versions()["device"]


@pytest.mark.measure
@pytest.mark.slow
def test_slower_commit_is_slower_on_real_packets(
    product: RouterProduct,
    project: ProjectSettings,
    on_veth: Callable[[BuiltCommit], Testbed],
    require_quiet: Callable[[str], None],
    record_property: Callable[[str, object], None],
) -> None:
    found = []
    commits = (product.commit(0), product.commit(SLOW_RULES))
    with open_builds(project) as builds:
        for commit in commits:
            built = builds.build(commit)
            builds.install(built)
            with on_veth(built) as testbed:
                testbed.start_device({"acl_rules": "0"})
                testbed.use("64B")
                trials = [testbed.trials.measure(testbed.maximum_pps, 0.3) for _ in range(3)]
                require_quiet("".join(interference(trial.invalid) for trial in trials))
                found.append([trial.receive_rate_pps for trial in trials])

    fast, slow = found
    record_property("measured", f"0 and {SLOW_RULES} more rules: {fast} and {slow} pps")
    assert min(fast) > max(slow)


@pytest.mark.packets
def test_commit_that_crashes_at_start_tells_its_last_words(
    product: RouterProduct, project: ProjectSettings, on_veth: Callable[[BuiltCommit], Testbed]
) -> None:
    commit = product.crash_at_start()
    with (
        open_builds(project) as builds,
        on_veth(builds.build(commit)) as testbed,
        pytest.raises(TestbedError, match="device has ended: the table of routes is corrupt"),
    ):
        testbed.start_device({})


def test_commit_that_does_not_build_tells_why(product: RouterProduct, project: ProjectSettings) -> None:
    commit = product.break_build()

    with open_builds(project) as builds, pytest.raises(BuildError, match="build failed") as caught:
        builds.build(commit)

    assert "SyntaxError: invalid syntax" in caught.value.last_lines


@pytest.mark.packets
def test_suites_measure_the_program_that_the_settings_name(
    product: RouterProduct, project: ProjectSettings, tmp_path: Path, require: Require
) -> None:
    reason = Testbed(specification.load("1n-veth")).unusable()
    require(not reason, reason)
    commit = product.commit(0)
    with open_builds(project) as builds:
        options = builds.build(commit).device_options
        given = [word for name, value in options.items() for word in ("--device-option", f"{name}={value}")]
        done = subprocess.run(
            [
                sys.executable,
                "-P",
                "-m",
                "perftrend.cli.trending",
                "--tags",
                "mrrAND64bAND1cANDethip4-ip4base",
                *given,
            ],
            cwd=tmp_path,
            env=os.environ
            | {
                "PYTHONPATH": str(ROOT),
                "PERFTREND_TRIAL_DURATION_S": "0.2",
                "PERFTREND_TRIAL_MULTIPLICITY": "2",
                "PERFTREND_TRIAL_STARTS": "2",
                "PERFTREND_TRIAL_ATTEMPTS": "2",
            },
            capture_output=True,
            text=True,
            check=False,
        )

    # A busy machine makes the result one that cannot be trusted; whose it is must be right all the same.
    assert done.returncode in (EXIT_PASS, EXIT_TESTBED), done.stderr
    [output] = tmp_path.rglob("output.xml")
    assert [commit] == [result.details["versions"]["device"] for result in read_output(output)]


BUILD = """
import sys
from pathlib import Path
from perftrend.builds import Builds, load
from perftrend.clients.git import Repository

source, folder, commit = sys.argv[1:]
with Builds(load("embedded-router"), Repository.at(Path(source)), Path(folder)) as builds:
    builds.build(commit)
"""


@pytest.mark.slow
def test_builds_that_are_killed_at_any_moment_leave_nothing_trusted(
    product: RouterProduct, tmp_path: Path
) -> None:
    """Whatever moment it is, the next build gives the same bytes as one that nobody disturbed."""
    commit = product.commit(7)
    repository = Repository.at(product.folder)
    killed = 0
    for number in range(12):
        folder = tmp_path / str(number)
        process = subprocess.Popen([sys.executable, "-c", BUILD, str(product.folder), str(folder), commit])
        try:
            process.wait(0.25 + 0.04 * number)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()

        with Builds(load("embedded-router"), repository, folder) as builds:
            built = builds.build(commit)
            program = (built.folder / "router.pyz").read_bytes()

            assert [built.folder.parent.name] == [
                path.name for path in (folder / "kept").iterdir() if path.is_dir()
            ]
            assert b"EXTRA_RULES" in program
            assert [] == list((folder / "staging").glob("*"))
    assert killed
