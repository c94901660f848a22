"""The shipped suites: made by one template, tagged as the documentation promises."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from robot import running

SUITES = Path(__file__).resolve().parents[1] / "suites"
PLAN = yaml.safe_load((SUITES / "suites.yaml").read_text())
DEVICES = [device["name"] for device in PLAN["devices"] + PLAN["reconfigurations"]]


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


def test_every_device_is_measured_in_every_way_at_every_size(shipped: running.TestSuite) -> None:
    planned = {
        f"{frame.lower()}-1c-{device}-{metric}"
        for frame in ("64B", "1518B", "IMIX")
        for device in ("ethip4-ip4base", "ethip4-ip4base-acl20", "ethip4-ip4base-acl60", "eth-l2bdbasemaclrn")
        for metric in ("mrr", "ndrpdr", "soak")
    }
    planned |= {f"{frame}-1c-ethip4-ip4base-addroutes-reconf" for frame in ("64b", "1518b", "imix")}

    assert planned == {test.name for test in shipped.all_tests}


def test_every_test_is_tagged_with_the_parts_of_its_name(shipped: running.TestSuite) -> None:
    for test in shipped.all_tests:
        frame, cores, *device, metric = test.name.split("-")
        parts = {frame, cores, "-".join(device), metric}
        assert parts == {tag.lower() for tag in test.tags}


def test_tags_are_written_as_people_write_them(shipped: running.TestSuite) -> None:
    tags = {str(tag) for test in shipped.all_tests for tag in test.tags}

    assert {"64B", "1518B", "IMIX", "1C", "MRR", "NDRPDR", "SOAK", "RECONF", *DEVICES} == tags


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("mrrAND64b", 4),
        ("ndrpdrAND64b", 4),
        ("mrrAND64bANDethip4-ip4base", 1),
        ("imixANDeth-l2bdbasemaclrn", 3),
        ("soakAND64bANDethip4-ip4base", 1),
    ],
)
def test_expression_of_the_usual_style_selects(expression: str, chosen: int) -> None:
    suite = running.TestSuite.from_file_system(SUITES)
    suite.filter(included_tags=[expression])

    assert chosen == suite.test_count


def test_every_test_has_a_limit_of_time(shipped: running.TestSuite) -> None:
    assert all(test.timeout for test in shipped.all_tests)
