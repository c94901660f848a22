"""Cores and ports on different NUMA nodes, by files like those of a kernel that has two of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perftrend.errors import TestbedError
from perftrend.measure.numa import find_distant_cores, parse_cores
from perftrend.measure.specification import Specification
from perftrend.measure.wiring import NoWiring

CARDS = {"0000:5e:00.0": "0", "0000:af:00.0": "1", "0000:00:05.0": "-1"}


@pytest.fixture
def system(tmp_path: Path) -> Path:
    for number, cores in enumerate(("0-3,8-11", "4-7,12-15")):
        folder = tmp_path / f"devices/system/node/node{number}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cores}\n")
    for address, number in CARDS.items():
        folder = tmp_path / "bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{number}\n")
    folder = tmp_path / "class/net/eth1"
    folder.mkdir(parents=True)
    (folder / "device").symlink_to(tmp_path / "bus/pci/devices/0000:af:00.0")
    (tmp_path / "class/net/d0").mkdir()
    return tmp_path


def distant(system: Path, port: dict[str, Any], cpu: int | None, **options: str) -> list[str]:
    spec = Specification.model_validate(
        {
            "name": "ours",
            "description": "",
            "nodes": {"dut": {"cpu": cpu}},
            "generator": {"driver": "trex"},
            "device": {"driver": "vpp", "options": options},
            "link": {"pps": 1},
            "links": [{"tg": {"pci": "0000:00:01.0"}, "dut": port}],
            "driver_tag": "X",
        }
    )
    return [f"{each}; {each.better}" for each in find_distant_cores(spec, NoWiring(), str(system))]


@pytest.mark.parametrize(
    ("port", "cpu", "expected"),
    [
        ({"pci": "0000:5e:00.0"}, 9, ""),
        ({"pci": "5e:00.0"}, 4, "core 4 of node dut is on another NUMA node than its port 5e:00.0; 0-3,8-11"),
        ({"interface": "eth1"}, 15, ""),
        (
            {"interface": "eth1"},
            3,
            "core 3 of node dut is on another NUMA node than its port eth1; 4-7,12-15",
        ),
        ({"pci": "0000:00:05.0"}, 4, ""),
        ({"pci": "0000:00:05.0", "numa": 0}, 4, "port 0000:00:05.0; 0-3,8-11"),
        ({"pci": "0000:99:00.0"}, 4, ""),
        ({"interface": "d0"}, 4, ""),
        ({"interface": "eth1"}, None, ""),
    ],
)
def test_core_is_compared_with_the_port(
    system: Path, port: dict[str, Any], cpu: int | None, expected: str
) -> None:
    found = distant(system, port, cpu)

    assert bool(expected) == bool(found)
    assert all(line.endswith(expected) for line in found)


def test_workers_of_vpp_count_and_not_its_main_thread(system: Path) -> None:
    port = {"pci": "0000:5e:00.0"}

    assert [] == distant(system, port, 4, worker_cores="1-3")
    assert ["core 4", "core 12"] == [
        line.partition(" of ")[0] for line in distant(system, port, 0, worker_cores="1,4,12")
    ]


def test_kernel_without_numa_nodes_reports_nothing(tmp_path: Path) -> None:
    assert [] == distant(tmp_path, {"pci": "0000:5e:00.0"}, 4)


def test_node_that_cannot_be_reached_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TestbedError):
        distant(tmp_path / "nowhere", {"pci": "0000:5e:00.0"}, 4)


@pytest.mark.parametrize(
    ("text", "cores"),
    [("2-5,8", [2, 3, 4, 5, 8]), ("7", [7]), ("", []), ("5-2", []), ("1,x", []), ("1-", [])],
)
def test_list_of_cores(text: str, cores: list[int]) -> None:
    assert cores == list(parse_cores(text))
