"""The shipped suites: made by one template, tagged as the documentation promises."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from robot import running

from perftrend.measure.interfaces import check_options
from perftrend.measure.traffic import TRAFFIC_ONLY, TrafficProfile

SUITES = Path(__file__).resolve().parents[1] / "suites"
PLAN = yaml.safe_load((SUITES / "suites.yaml").read_text())
DEVICES = [device["name"] for device in PLAN["devices"] + PLAN["reconfigurations"]]
WITH_QUEUES = {"eth-l2xcbase-2rxq", "eth-l2xcbase-4rxq"}
QUEUE_TAGS = {"rxq=2", "rxq=4"}
USUAL = ("64B", "1518B", "IMIX")
FRAMES = {
    "ethip4-ip4base": (*USUAL, "9000B"),
    "ethip4-ip4base-acl20": USUAL,
    "ethip4-ip4base-acl60": USUAL,
    "ethip4-ip4scale10k": USUAL,
    "ethip6-ip6base": ("78B", "1518B"),
    "eth-l2bdbasemaclrn": USUAL,
    "eth-l2xcbase": USUAL,
    "dot1q-ip4base": USUAL,
    "dot1q-l2bdbasemaclrn": USUAL,
    "ethip4vxlan-l2bdbasemaclrn": ("114B", "1518B"),
}


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", SUITES / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def shipped() -> running.TestSuite:
    return running.TestSuite.from_file_system(SUITES)


def test_suites_are_what_the_template_makes(generate: ModuleType) -> None:
    made = dict(generate.suites())

    assert made == {file: file.read_text() for file in SUITES.glob("*-*.robot")}


def test_every_device_is_measured_in_every_way_at_each_of_its_sizes(shipped: running.TestSuite) -> None:
    planned = {
        f"{frame.lower()}-{cores}-{device}-{metric}"
        for device, frames in FRAMES.items()
        for frame in frames
        for cores in ("1c", "2c", "4c")
        for metric in ("mrr", "ndrpdr", "soak")
    }
    planned |= {f"{frame}-1c-ethip4-ip4base-addroutes-reconf" for frame in ("64b", "1518b", "imix")}
    planned |= {
        f"64b-{cores}-eth-l2xcbase-{queues}-{metric}"
        for cores in ("2c", "4c")
        for queues in ("2rxq", "4rxq")
        for metric in ("mrr", "ndrpdr", "soak")
    }

    assert planned == {test.name for test in shipped.all_tests}


@pytest.mark.parametrize("device", PLAN["devices"] + PLAN["reconfigurations"], ids=DEVICES)
def test_headers_of_the_traffic_fit_into_the_frames(device: dict[str, Any]) -> None:
    options = {name: str(value) for name, value in device["options"].items()}

    profiles = [TrafficProfile.parse(frame, options) for frame in device["frames"]]

    check_options({name: value for name, value in options.items() if name not in TRAFFIC_ONLY})
    assert device["frames"] == [profile.frame.name for profile in profiles]


def test_number_of_cores_is_that_of_the_name(shipped: running.TestSuite) -> None:
    for test in shipped.all_tests:
        cores = test.name.split("-")[1].removesuffix("c")
        assert f"cores={cores}" in test.body[0].args


def test_every_test_is_tagged_with_the_parts_of_its_name(shipped: running.TestSuite) -> None:
    for test in shipped.all_tests:
        frame, cores, *device, metric = test.name.split("-")
        parts = {frame, cores, "-".join(device), metric}
        assert parts == {tag.lower() for tag in test.tags} - QUEUE_TAGS


def test_number_of_receive_queues_is_that_of_the_tag_and_the_name(shipped: running.TestSuite) -> None:
    queues = [test for test in shipped.all_tests if {*test.tags} & QUEUE_TAGS]

    assert 12 == len(queues)
    for test in queues:
        [count] = [tag.removeprefix("rxq=") for tag in test.tags if tag in QUEUE_TAGS]
        assert f"-{count}rxq-" in test.name
        assert f"receive_queues={count}" in test.body[0].args


def test_tags_are_written_as_people_write_them(shipped: running.TestSuite) -> None:
    tags = {str(tag) for test in shipped.all_tests for tag in test.tags}

    sizes, cores = {"64B", "78B", "114B", "1518B", "IMIX", "9000B"}, {"1C", "2C", "4C"}
    assert sizes | cores | {"MRR", "NDRPDR", "SOAK", "RECONF", *DEVICES, *WITH_QUEUES, *QUEUE_TAGS} == tags


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("mrrAND64b", 28),
        ("mrrAND64bANDrxq=2", 2),
        ("mrrAND64bAND1c", 8),
        ("ndrpdrAND64bAND1c", 8),
        ("mrrAND64bAND1cANDethip4-ip4base", 1),
        ("imixAND1cANDeth-l2bdbasemaclrn", 3),
        ("soakAND64bAND1cANDethip4-ip4base", 1),
        ("mrrAND9000b", 3),
    ],
)
def test_expression_of_the_usual_style_selects(expression: str, chosen: int) -> None:
    suite = running.TestSuite.from_file_system(SUITES)
    suite.filter(included_tags=[expression])

    assert chosen == suite.test_count


def test_every_test_has_a_limit_of_time(shipped: running.TestSuite) -> None:
    assert all(test.timeout for test in shipped.all_tests)
