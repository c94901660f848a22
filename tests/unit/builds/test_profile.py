"""Profiles: the permitted keys, and the errors of wrong ones."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.builds import load, names
from perftrend.builds.commands import expand_command
from perftrend.builds.profile import (
    SSH_OPTIONS,
    MeasureTable,
    Profile,
    ProfileParameter,
    SandboxTable,
    Timeouts,
)
from perftrend.errors import SettingsError
from perftrend.model import Better

DOCS = Path(__file__).resolve().parents[3] / "docs" / "projects.rst"
SHIPPED = ["command", "embedded-router", "ovs-flows", "vpp", "vpp-remote"]
NEEDED = {"command": {"measure": "./bench"}}
GOOD = """
description: ours
build: [[make, "-j{jobs}"]]
artifacts: [out/*]
"""
OPEN = """
description: ours
parameters:
  target: {description: What is made}
  flags: {description: How, default: "-O2 '-DNAME=a b'"}
build: [[make, "{target}", "{flags...}", "--{target}={{target}}"]]
artifacts: ["out/{target}"]
device_options: {program: "{artifacts}/{target}"}
"""


def written(folder: Path, text: str, name: str = "ours") -> Path:
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


def refused(folder: Path, text: str, **parameters: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load("ours", written(folder, text), parameters)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_shipped_profile_is_known() -> None:
    assert SHIPPED == names()


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profile_loads(name: str) -> None:
    assert name == load(name, parameters=NEEDED.get(name, {})).name


def test_packages_are_installed_on_the_machine_of_the_device() -> None:
    profile = load("vpp-remote")
    values = {"device": "perf@dut", "artifacts": "/builds/1"}
    spliced = {SSH_OPTIONS: ["-F", "my config"]}

    remove, copy, install = (expand_command(each, values, spliced) for each in profile.install)
    assert profile.identify is not None
    identify = expand_command(profile.identify, values, spliced)

    assert profile.installs_by_ssh
    assert ["ssh", "-F", "my config", "perf@dut", "rm", "-rf", "perftrend-packages"] == remove
    assert ["-F", "my config", "/builds/1/build-root", "perf@dut:perftrend-packages"] == copy[-4:]
    assert ["ssh", "-F", "my config", "perf@dut", "sudo"] == install[:5]
    assert ["perf@dut", "dpkg-query", "--show", "vpp"] == identify[-4:]
    assert not load("vpp").installs_by_ssh


@pytest.mark.parametrize("word", ["{device}", "{ssh_options...}"])
def test_machine_of_the_device_is_for_profiles_that_install_on_it(tmp_path: Path, word: str) -> None:
    installs = f"{GOOD}install: [[ssh, '{word}', ls]]\n"
    assert load("own", written(tmp_path, installs, "own")).installs_by_ssh
    for more in (f"measure: {{command: [ssh, '{word}']}}\n", "install: [[ssh, '{ssh_options}']]\n"):
        with pytest.raises(SettingsError, match=r"not a placeholder here|a brace outside"):
            load("own", written(tmp_path, GOOD + more, "own"))
    with pytest.raises(SettingsError, match=r"needs the suites; a command under measure uses no testbed"):
        load("own", written(tmp_path, f"{installs}measure: {{command: [./bench]}}\n", "own"))


def test_profile_of_the_team_goes_before_a_shipped_one(tmp_path: Path) -> None:
    assert "ours" == load("vpp", written(tmp_path, GOOD, "vpp")).description


def test_unknown_profile_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="profile 'vp' is unknown; did you mean 'vpp'"):
        load("vp")
    with pytest.raises(SettingsError, match="is unknown"):
        load("../projects/vpp")
    with pytest.raises(SettingsError, match=r"is not a folder of profiles; see .* project\.profiles"):
        load("vpp", tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("artefacts: [x]", "artefacts is not a profile key; did you mean 'artifacts'?"),
        ("measure: {comand: [x]}", "measure.command: Field required"),
        ("measure: {command: [x], unti: s}", "measure.unti is not a profile key; did you mean 'unit'?"),
        ("timeouts_s: {biuld: 3}", "timeouts_s.biuld is not a profile key; did you mean 'build'?"),
        ("timeouts_s: {build: 0}", "timeouts_s.build: Input should be greater than 0"),
        ("measure: {command: [x], better: fast}", "measure.better: Input should be 'higher' or 'lower'"),
        ("measure: {command: [x], cores: two}", "measure.cores: Input should be 'one' or 'all'"),
        ("measure: {command: [x], repetitions: 0}", "measure.repetitions: Input should be greater than or"),
        ("measure: {command: [x], variants: 0}", "measure.variants: Input should be greater than or equal"),
        ("install: [['x{variant}']]", "install.0.0: {variant} in 'x{variant}' is not a placeholder here"),
        ("measure: {command: []}", "measure.command: Tuple should have at least 1 item"),
        ("measure: {command: [x], ignore: ['(']}", "measure.ignore.0: '(' is not a regular expression"),
        ("install: [[cp, '{source}/x']]", "install.0.1: {source} in '{source}/x' is not a placeholder here"),
        ("install: [[cp, '{artefacts}/x']]", "did you mean 'artifacts'?"),
        ("install: [make install]", "install.0: Input should be a valid tuple"),
        ("identify: [x, '{commit']", "a brace outside a placeholder; write {{ or }}"),
        ("device_options: {program: '{source}'}", "device_options.program: {source}"),
        ("parameters: {x: {}}", "parameters.x.description: Field required"),
        ("parameters: {x: {defualt: y}}", "parameters.x.description: Field required"),
        (
            "parameters: {x: {description: x, defualt: y}}",
            "parameters.x.defualt is not a profile key; did you mean 'default'?",
        ),
        ("parameters: [x]", "parameters: Input should be a valid dictionary"),
        ("environment: {'A B': x}", "'A B' is not a variable name"),
        ("environment: {A: '{artifacts}'}", "environment.A: {artifacts}"),
    ],
)
def test_wrong_profile_is_told_with_its_file_and_key(tmp_path: Path, more: str, told: str) -> None:
    message = refused(tmp_path, f"{GOOD}\n{more}\n")

    assert f"profile file {tmp_path}/ours.yaml: " in message
    assert told in message


@pytest.mark.parametrize("pattern", ["/etc/passwd", "../x", "a/../../x", ".", "a/**x"])
def test_artifacts_lie_within_the_checkout(tmp_path: Path, pattern: str) -> None:
    text = f"description: ours\nartifacts: [{pattern}]\n"

    assert "should be a pattern of files within the worktree" in refused(tmp_path, text)


@pytest.mark.parametrize("text", ["a: [", "[]", "", "text", "\x00", "description: &a [*a]"])
def test_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    refused(tmp_path, text)


def test_words_are_what_was_written(tmp_path: Path) -> None:
    text = "description: 1.10\nartifacts: [in]\nbuild: [[chmod, 0755, in, yes, 1e3, '', null]]\n"

    profile = load("ours", written(tmp_path, text))

    assert ("1.10", ("chmod", "0755", "in", "yes", "1e3", "", "null")) == (
        profile.description,
        profile.build[0],
    )


@pytest.mark.parametrize("word", [r'"\0"', r'"\ud800"'])
def test_word_that_no_command_can_have_is_refused(tmp_path: Path, word: str) -> None:
    text = f"description: ours\nartifacts: [in]\nbuild: [[x, {word}]]\n"

    refused(tmp_path, text)


def test_build_that_needs_artifacts_of_its_own_is_refused(tmp_path: Path) -> None:
    """They lie nowhere yet; what is made in the checkout is copied."""
    text = GOOD.replace("make,", "make, '{artifacts}',")

    assert "build.0.1: {artifacts} in '{artifacts}' is not a placeholder here" in refused(tmp_path, text)


def test_parameters_are_filled_in_and_spliced(tmp_path: Path) -> None:
    profile = load("ours", written(tmp_path, OPEN), {"target": "router"})

    assert (("make", "router", "-O2", "-DNAME=a b", "--router={{target}}"),) == profile.build
    assert ("out/router",) == profile.artifacts
    assert {"program": "{artifacts}/router"} == profile.device_options


def test_parameter_may_hold_what_is_filled_in_later(tmp_path: Path) -> None:
    profile = load("ours", written(tmp_path, OPEN), {"target": "x", "flags": "-j{jobs} {{x}}"})

    assert ("make", "x", "-j{jobs}", "{{x}}", "--x={{target}}") == profile.build[0]


def test_parameter_is_not_filled_into_another(tmp_path: Path) -> None:
    message = refused(tmp_path, OPEN, target="x", flags="{target}")

    assert "build.0.2: {target} in '{target}' is not a placeholder here" in message


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "profile ours needs the parameter target: What is made; see the setting project.parameters"),
        ({"target": "x", "flag": "y"}, "profile ours has no parameter 'flag'; did you mean 'flags'?"),
        ({"target": "x", "flags": "'a"}, "parameter flags: No closing quotation"),
        ({"target": "../x"}, "should be a pattern of files within the worktree"),
    ],
)
def test_wrong_parameter_is_told(tmp_path: Path, given: dict[str, str], told: str) -> None:
    assert told in refused(tmp_path, OPEN, **given)


def test_parameter_cannot_take_the_name_of_a_placeholder(tmp_path: Path) -> None:
    text = f"{GOOD}parameters: {{commit: {{description: x}}}}\n"

    assert "'commit' cannot be the name of a parameter" in refused(tmp_path, text)


def test_command_without_words_is_none() -> None:
    assert () == load("command", parameters=NEEDED["command"]).build


def test_command_profile_takes_all_from_its_parameters() -> None:
    given = {
        "build": "make -j{jobs} 'all things'",
        "measure": "{python} bench.py --commit {commit} --layout {variant}",
        "keep": "bench.py lib/**/*.so",
        "prints": "named",
        "unit": "ms",
        "better": "lower",
        "ignore": "'#.*' 'warming up .*'",
        "cores": "all",
        "repetitions": "5",
        "variants": "3",
        "timeout_s": "60",
    }

    profile = load("command", parameters=given)

    assert (("make", "-j{jobs}", "all things"),) == profile.build
    assert ("bench.py", "lib/**/*.so") == profile.artifacts
    assert profile.measure == MeasureTable(
        command=("{python}", "bench.py", "--commit", "{commit}", "--layout", "{variant}"),
        prints="named",
        unit="ms",
        better=Better.LOWER,
        ignore=("#.*", "warming up .*"),
        cores="all",
        repetitions=5,
        variants=3,
    )
    assert 60 == profile.timeouts_s.measure


def test_hash_changes_with_what_an_artifact_depends_on_only(tmp_path: Path) -> None:
    hashes = {
        text: load("ours", written(tmp_path, text)).hash
        for text in (
            GOOD,
            GOOD.replace("make", "ninja"),
            GOOD.replace("out/*", "out/**"),
            f"{GOOD}environment: {{A: b}}\n",
        )
    }
    others = [GOOD.replace("ours", "theirs"), f"{GOOD}timeouts_s: {{build: 3}}\nidentify: [x]\n"]

    assert len(hashes) == len(set(hashes.values()))
    assert {hashes[GOOD]} == {load("ours", written(tmp_path, text)).hash for text in others}


@given(st.dictionaries(st.sampled_from(["build", "measure", "keep", "unit", "ignore"]), st.text(max_size=30)))
def test_no_value_of_a_parameter_does_more_than_be_refused(given: dict[str, str]) -> None:
    try:
        profile = load("command", parameters={"measure": "./bench", **given})
    except SettingsError:
        return

    assert bool(profile.build) == bool(shlex.split(given.get("build", "")))


@pytest.mark.parametrize("table", [Profile, MeasureTable, ProfileParameter, SandboxTable, Timeouts])
def test_every_key_is_documented(table: type[Profile]) -> None:
    page = DOCS.read_text(encoding="utf-8")

    missing = [key for key in table.model_fields if not re.search(rf"``(\w+\.)?{key}``", page)]

    assert [] == missing


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_profile_is_documented(name: str) -> None:
    assert f"``{name}``" in DOCS.read_text(encoding="utf-8")
