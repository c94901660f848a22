from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SettingsError
from perftrend.measure.interfaces import Port
from perftrend.measure.vpp.options import VppOptions, lacks, startup_configuration

KERNEL_PORTS = [Port("d0"), Port("d1")]
PCI_PORTS = [Port(pci="3b:00.0"), Port(pci="0000:3b:00.1")]


def sections(ports: list[Port], **options: str) -> dict[str, str]:
    """Return the words between the braces of each section."""
    arguments = startup_configuration(VppOptions.parse(options), ports)
    return {each.partition(" { ")[0]: each.partition(" { ")[2].removesuffix(" }") for each in arguments}


def test_ports_of_the_kernel_need_no_hugepages_and_no_dpdk() -> None:
    assert {
        "unix": "nodaemon nosyslog nocolor runtime-dir /run/perftrend/vpp "
        "cli-listen /run/perftrend/vpp/cli.sock",
        "socksvr": "socket-name /run/perftrend/vpp/api.sock",
        "api-segment": "prefix perftrend-vpp",
        "statseg": "socket-name /run/perftrend/vpp/stats.sock size 96M",
        "memory": "main-heap-size 1024M",
        "buffers": "page-size default",
        "plugins": "plugin dpdk_plugin.so { disable }",
    } == sections(KERNEL_PORTS)


def test_network_cards_are_driven_by_dpdk() -> None:
    found = sections(PCI_PORTS, workers="3", buffers="65536", dpdk="no-multi-seg no-tx-checksum-offload")

    assert (
        "dev 0000:3b:00.0 { name port0 num-rx-queues 2 } dev 0000:3b:00.1 { name port1 num-rx-queues 2 } "
        "no-multi-seg no-tx-checksum-offload"
    ) == found["dpdk"]
    assert "buffers-per-numa 65536" == found["buffers"]
    assert "plugins" not in found


def test_network_cards_can_do_without_hugepages() -> None:
    found = sections(PCI_PORTS, hugepages="no")

    assert found["dpdk"].endswith(" no-hugetlb")
    assert "page-size default" == found["buffers"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"main_core": "1"}, "main-core 1"),
        ({"workers": "2"}, "workers 2"),
        ({"main_core": "1", "worker_cores": "2-4,8"}, "main-core 1 corelist-workers 2,3,4,8"),
        ({"main_core": "1", "worker_cores": "2-4,8", "workers": "2"}, "main-core 1 corelist-workers 2,3"),
        ({"main_core": "1", "worker_cores": "2-4,8", "cores": "1"}, "main-core 1 corelist-workers 2"),
        ({"main_core": "1", "worker_cores": "2-4,8", "cores": "4"}, "main-core 1 corelist-workers 2,3,4,8"),
        ({"main_core": "1", "workers": "3", "cores": "1"}, "main-core 1"),
        ({"main_core": "1", "cores": "2"}, "main-core 1 workers 2"),
    ],
)
def test_threads_are_placed_on_cores(options: dict[str, str], expected: str) -> None:
    assert expected == sections(KERNEL_PORTS, **options)["cpu"]


def test_main_thread_is_on_the_core_of_the_node() -> None:
    assert 7 == VppOptions.parse({}, cpu=7).main_core
    assert 1 == VppOptions.parse({"main_core": "1"}, cpu=7).main_core


def test_only_the_plugins_that_are_needed_are_loaded() -> None:
    assert (
        "plugin default { disable } plugin acl_plugin.so { enable } plugin af_packet_plugin.so { enable } "
        "plugin nat_plugin.so { enable }"
    ) == sections(KERNEL_PORTS, plugins="nat", acl_rules="1")["plugins"]
    assert (
        "plugin vxlan_plugin.so { enable }"
        in (sections(KERNEL_PORTS, plugins="nat", forwarding="l2", tunnel="vxlan")["plugins"])
    )
    assert "plugin dpdk_plugin.so { enable }" in sections(PCI_PORTS, plugins="nat")["plugins"]


def test_memory_grows_with_the_routes() -> None:
    found = sections(KERNEL_PORTS, forwarding="ip6", routes="2000000", main_core="0", worker_cores="1-4")

    assert "main-heap-size 4930M" == found["memory"]
    assert "size 1316M" in found["statseg"]
    assert "hash-buckets 2097152 heap-size 2017M" == found["ip6"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"forwarding": "l3"}, "forwarding='l3'; known are ip4, ip6, l2, l2xc"),
        ({"routez": "1"}, "no option 'routez'; did you mean 'routes'"),
        ({"routes": "2000001"}, "routes='2000001': write a number from 0 to 2000000"),
        ({"routes": "1", "forwarding": "l2"}, "routes: forwarding=l2 uses no routes"),
        ({"workers": "65"}, "write a number from 0 to 64"),
        ({"workers": "3", "worker_cores": "2-3", "main_core": "1"}, "worker_cores has only 2 cores"),
        ({"worker_cores": "2-3"}, "worker_cores needs main_core"),
        ({"worker_cores": "2-3", "main_core": "3"}, "worker_cores has the same core"),
        ({"worker_cores": "2;3"}, "worker_cores='2;3': write cores, such as 2-5,8"),
        ({"worker_cores": "5-2"}, "worker_cores='5-2': write cores, such as 2-5,8"),
        ({"plugins": "acl_plugin.so"}, "names of plugins without _plugin.so"),
        ({"dpdk": "} unix { exec /tmp/x"}, "without braces"),
        ({"commands": "show int\nshow ip fib"}, "commands of VPP, separated by semicolons"),
        ({"commands": "show é"}, "in ASCII"),
        ({"program": "vpp"}, "program='vpp': write an absolute path"),
        ({"runtime_dir": "/run/a b"}, "runtime_dir='/run/a b': write an absolute path"),
        ({"hugepages": "2M"}, "hugepages='2M'; known are no, yes"),
    ],
)
def test_option_that_cannot_be_used_is_named(options: dict[str, str], expected: str) -> None:
    with pytest.raises(SettingsError) as refused:
        VppOptions.parse(options)

    assert expected in str(refused.value)


@given(
    st.dictionaries(
        st.sampled_from(["dpdk", "plugins", "runtime_dir", "program", "worker_cores"]),
        st.text(alphabet="{}/ ab1,-.\n;", max_size=8),
    )
)
def test_no_value_opens_or_closes_a_section(options: dict[str, str]) -> None:
    """Otherwise, an option could make VPP run commands or open files."""
    try:
        arguments = startup_configuration(VppOptions.parse(options), PCI_PORTS)
    except SettingsError:
        return
    assert all(each.count("{") == each.count("}") for each in arguments)
    assert {"unix", "socksvr", "api-segment", "statseg", "memory", "cpu", "buffers", "plugins", "dpdk"} >= {
        each.split()[0] for each in arguments
    }


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"cores": "4"}, ""),
        ({"worker_cores": "2-5", "cores": "4"}, ""),
        ({"worker_cores": "2,3", "cores": "4"}, "cores=4: the option worker_cores has 2"),
        ({"forwarding": "l2", "acl_rules": "20"}, ""),
        ({"forwarding": "ip6", "routes": "10000"}, ""),
        ({"forwarding": "l2", "routes": "10000"}, "routes=10000 for forwarding=l2"),
        ({"forwarding": "ip4", "vlan": "100"}, ""),
        ({"forwarding": "ip6", "vlan": "100,200"}, ""),
        ({"forwarding": "l2", "vlan": "100,200"}, "vlan=100,200 for forwarding=l2"),
        ({"forwarding": "l2", "tunnel": "vxlan"}, ""),
        ({"forwarding": "l2", "tunnel": "geneve", "vlan": "7"}, ""),
    ],
)
def test_tests_that_vpp_cannot_run_are_skipped(options: dict[str, str], reason: str) -> None:
    assert lacks(options, 2) == (f"VPP does not support {reason}" if reason else "")


def test_long_frames_need_more_than_one_buffer() -> None:
    assert "" == lacks({"frame_bytes": "9000"}, 2)
    assert "frames of 9000 bytes (VPP forwards up to 1518)" == lacks(
        {"frame_bytes": "9000", "dpdk": "no-tx-checksum-offload no-multi-seg"}, 2
    )
