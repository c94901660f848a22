"""The name of a run that is measured in another way than the settings file specifies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perftrend.cli import trending
from perftrend.measure import specification
from perftrend.settings import FILE_VARIABLE, Settings

FILE = "device_options: {acl_rules: 20}\ntrial: {duration_s: 2}\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    path = tmp_path / "settings.yaml"
    path.write_text(FILE)
    return str(path)


def named(file: str | None, testbed: str = "simulated", **overrides: Any) -> str:
    settings = Settings.load(
        file, {"PERFTREND_TRIAL_STARTS": "3"} if overrides.pop("by", "") else {}, overrides
    )
    return trending.describe_differences(settings, specification.load(testbed), file=file)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, ""),
        ({"trial.duration_s": 2.0, "device_options": {"acl_rules": "20"}}, ""),
        ({"device_options": {"acl_rules": "60"}}, "acl_rules=60"),
        ({"device_options": {"burst": "8"}, "trial.duration_s": 1.0}, "burst=8 trial.duration_s=1.0"),
        ({"search.final_duration_s": 1.0}, "search.final_duration_s=1.0"),
        ({"search.loss_ratios": [0.01, 0.1]}, "search.loss_ratios=0.01+0.1"),
        ({"by": "environment"}, "trial.starts=3"),
        ({"tags": ["mrr"], "report": "elsewhere", "cadence": "weekly"}, ""),
    ],
)
def test_experiment_is_named_after_what_the_settings_file_does_not_say(
    file: str, given: dict[str, Any], name: str
) -> None:
    assert name == named(file, **given)


def test_what_is_taken_away_is_named_too(file: str) -> None:
    settings = Settings.load(file).model_copy(update={"device_options": {}})

    assert "without acl_rules" == trending.describe_differences(
        settings, specification.load("simulated"), file=file
    )


def test_file_of_the_environment_is_the_usual_one_too(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE_VARIABLE, file)

    assert "" == trending.describe_differences(Settings.load(), specification.load("simulated"), file=None)


@pytest.mark.parametrize(("testbed", "name"), [("1n-veth", "device=1a2b3c4-dirty"), ("1n-kernel", "")])
def test_local_changes_of_the_router_make_an_experiment_of_what_measures_it(
    monkeypatch: pytest.MonkeyPatch, testbed: str, name: str
) -> None:
    monkeypatch.setattr(trending, "embedded_version", lambda: "1a2b3c4-dirty")

    assert name == named(None, testbed)


def test_long_name_is_cut_and_still_tells_experiments_apart(file: str) -> None:
    many = {f"option_{number:03}": "value" for number in range(20)}

    first, other = (named(file, device_options=many | {"x": value}) for value in ("1", "2"))

    assert first != other
    assert first[:200] == other[:200]
    assert 215 > len(first)
