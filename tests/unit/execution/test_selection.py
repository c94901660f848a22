from __future__ import annotations

from pathlib import Path

import pytest

from perftrend import builds
from perftrend.errors import SettingsError, UsageError
from perftrend.execution.scope import choose_scope
from perftrend.execution.selection import select, tags_of
from perftrend.measure.specification import load
from perftrend.model import TraceKey
from perftrend.settings import Settings

SUITES = Path(__file__).resolve().parents[2] / "suites"
DEVICES = [
    "dot1q-ip4base",
    "dot1q-l2bdbasemaclrn",
    "eth-l2bdbasemaclrn",
    "eth-l2xcbase",
    "ethip4-ip4base",
    "ethip4-ip4base-acl20",
    "ethip4-ip4base-acl60",
    "ethip4-ip4scale10k",
]


def selected(*expressions: str, suites: Path = SUITES) -> frozenset[TraceKey]:
    return select(suites, expressions, testbed="simulated", tags=["DRV_SIMULATED"])


def names(keys: frozenset[TraceKey]) -> list[str]:
    return sorted({key["test"] for key in keys})


def test_expression_chooses_one_test_of_each_device() -> None:
    assert sorted(f"64b-1c-{device}-mrr" for device in DEVICES) == names(selected("mrrAND64bAND1c"))


def test_search_has_a_trace_for_each_rate_that_it_finds() -> None:
    assert ["ndr", "pdr"] == sorted(key["metric"] for key in selected("ndrpdrAND64bAND1cANDethip4-ip4base"))


def test_search_for_further_pdrs_has_a_trace_for_each() -> None:
    asked = Settings.model_validate({"search": {"loss_ratios": [0, 0.005, 0.01, 0.1]}})
    tags = tags_of(load("simulated"), asked)

    found = select(SUITES, ["ndrpdrAND64bAND1cANDethip4-ip4base"], testbed="simulated", tags=tags)

    assert ["ndr", "pdr", "pdr_0.01", "pdr_0.1"] == sorted(key["metric"] for key in found)


def test_search_has_a_trace_for_each_latency_if_the_generator_measures_it() -> None:
    tags = tags_of(load("simulated-latency", SUITES.parents[1] / "docs" / "examples"), Settings())

    found = select(SUITES, ["64bAND1cANDethip4-ip4base"], testbed="simulated-latency", tags=tags)

    latencies = ["latency_10", "latency_50", "latency_90"]
    assert [*latencies, "mrr", "ndr", "pdr", "soak"] == sorted(key["metric"] for key in found)


@pytest.mark.parametrize("cadence", sorted(Settings().cadences))
def test_no_cadence_takes_the_hours_of_a_soak(cadence: str) -> None:
    metrics = {key["metric"] for key in selected(*Settings(cadence=cadence).expressions)}

    assert metrics <= {"mrr", "ndr", "pdr"}


def test_reconfiguration_is_chosen_by_its_tag() -> None:
    found = selected("reconfAND64b")

    assert {
        ("reconf_packets", "64b-1c-ethip4-ip4base-addroutes-reconf"),
        ("reconf_time", "64b-1c-ethip4-ip4base-addroutes-reconf"),
    } == {(key["metric"], key["test"]) for key in found}


def test_soak_is_chosen_by_its_tag() -> None:
    (key,) = selected("soakAND64bAND1cANDethip4-ip4base")

    assert ("soak", "64b-1c-ethip4-ip4base-soak") == (key["metric"], key["test"])


def test_test_that_matches_any_expression_is_chosen_once() -> None:
    assert selected("mrrAND64b") == selected("mrrAND64b", "mrrAND64bAND1cANDethip4-ip4base")
    assert 16 == len(selected("mrrAND64bAND1c", "mrrANDimixAND1c"))


def test_trace_is_named_by_its_testbed_and_its_tags() -> None:
    (key,) = selected("mrrANDimixAND1cANDethip4-ip4base")

    assert {
        "cores": "1C",
        "driver": "simulated",
        "frame": "IMIX",
        "metric": "mrr",
        "suite": "Ethip4-Ip4Base-Mrr",
        "test": "imix-1c-ethip4-ip4base-mrr",
        "testbed": "simulated",
    } == key.as_dict()


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("mrrAND65b", "did you mean '64B' for '65b'?"),
        ("mrrrANDimix", "did you mean 'MRR' for 'mrrr'?"),
        ("mrrANDndrpdr", "tags are 114B, 1518B, 1C, 2C, 4C, 64B"),
        ("quux", "tags are 114B, 1518B, 1C, 2C, 4C, 64B"),
        ("$(reboot)", "tags are"),
        ("../..", "tags are"),
        ("mrrAND", "tags are"),
    ],
)
def test_expression_that_chooses_nothing_is_told_with_the_nearest_tag(expression: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        selected(expression)

    assert str(refused.value).startswith(f"no test matches the tags {expression!r}; ")
    assert hint in str(refused.value)


def test_missing_suites_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"suites .*nowhere: .*does not exist.*see the setting suites"):
        selected("mrr", suites=tmp_path / "nowhere")


def test_folder_without_suites_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"suites {tmp_path}: .*contains no test"):
        selected("mrr", suites=tmp_path)


def test_single_suite_file_can_be_chosen_from() -> None:
    keys = selected("mrrAND64bAND1c", suites=SUITES / "ethip4-ip4base-mrr.robot")

    assert ["64b-1c-ethip4-ip4base-mrr"] == names(keys)


def test_tags_that_the_run_sets_choose_as_well() -> None:
    assert selected("mrrAND64b") == selected("mrrAND64bANDdrv_simulated")


def test_network_card_of_the_testbed_is_a_parameter_of_its_traces() -> None:
    tags = ["DRV_SIMULATED", "NIC_Intel-E810CQ"]

    (key,) = select(SUITES, ["mrrAND64bAND1cANDethip4-ip4base"], testbed="2n-clx", tags=tags)

    assert "intel-e810cq" == key["nic"]


def test_test_that_measures_nothing_is_not_expected(tmp_path: Path) -> None:
    suite = "*** Test Cases ***\nsmoke\n    [Tags]    64B\n    No Operation\n"
    (tmp_path / "smoke.robot").write_text(suite)

    with pytest.raises(UsageError, match="no test matches the tags '64B'"):
        selected("64B", suites=tmp_path)


def test_profile_that_installs_by_ssh_needs_a_testbed_on_other_machines() -> None:
    """Otherwise a build would be installed on another machine than is measured, or nowhere."""
    with pytest.raises(
        SettingsError, match=r"^profile vpp-remote installs .* testbed 1n-loopback by ssh: node"
    ):
        choose_scope(Settings(testbed="1n-loopback"), builds.load("vpp-remote"))
