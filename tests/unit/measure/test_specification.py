from __future__ import annotations

from pathlib import Path

import pytest

from perftrend.errors import SettingsError
from perftrend.measure import specification
from perftrend.measure.specification import LinkFile, driver, load, names

SHIPPED = ["1n-kernel", "1n-loopback", "1n-ovs", "1n-testpmd", "1n-veth", "1n-xdp", "simulated"]
GOOD = """
description: ours
generator: {driver: simulated}
device: {driver: simulated}
driver_tag: OURS
link: {pps: 1000}
"""

LINKS = """
links:
  - {tg: {speed: 25G}, dut: {speed: 10G}}
  - {tg: {speed: 2.5G, numa: 1}, dut: {}}
"""


def written(folder: Path, text: str, name: str = "ours") -> Path:
    (folder / f"{name}.yaml").write_text(text)
    return folder


def test_every_shipped_testbed_is_known() -> None:
    assert SHIPPED == names()


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_testbed_loads_and_its_drivers_are_installed(name: str) -> None:
    spec = load(name)

    assert name == spec.name
    assert driver("wirings", spec.wiring.driver)
    assert driver("traffic_generators", spec.generator.driver)
    assert driver("devices", spec.device.driver)
    assert not spec.fallback or spec.fallback in SHIPPED


def test_only_the_simulated_testbed_says_that_it_is_simulated() -> None:
    assert ["simulated"] == [name for name in SHIPPED if load(name).simulated]


def test_only_testbeds_elsewhere_tolerate_load_on_this_machine(tmp_path: Path) -> None:
    assert ["simulated"] == [name for name in SHIPPED if load(name).tolerates_load]
    assert not load("ours", written(tmp_path, GOOD)).tolerates_load
    assert load("ours", written(tmp_path, f"{GOOD}remote: true")).tolerates_load


def test_testbeds_of_this_machine_exclude_each_other() -> None:
    assert 1 == len({load(name).lock for name in SHIPPED if name.startswith("1n-")})


def test_each_testbed_has_a_driver_tag_of_its_own() -> None:
    assert len(SHIPPED) == len({load(name).driver_tag for name in SHIPPED})


def test_network_card_is_a_tag_of_all_tests(tmp_path: Path) -> None:
    assert ("DRV_OURS",) == load("ours", written(tmp_path, GOOD)).test_tags
    found = load("ours", written(tmp_path, f"{GOOD}nic: Intel-E810CQ"))

    assert ("DRV_OURS", "NIC_Intel-E810CQ") == found.test_tags


CABLES = (
    "[{tg: {mac: '02:00:00:00:00:%d1'}, dut: {mac: '02:00:00:00:00:%d2'}},"
    " {tg: {mac: '02:00:00:00:00:%d3'}, dut: {mac: '02:00:00:00:00:%d4'}}]"
)


def test_each_instance_may_have_links_of_its_own(tmp_path: Path) -> None:
    lists = [CABLES % ((number,) * 4) for number in (1, 2)]
    spec = load("ours", written(tmp_path, f"{GOOD}instances: [{{links: {lists[0]}}}, {{links: {lists[1]}}}]"))

    macs = [spec.of_instance(number).links[1].link().device.mac for number in range(2)]

    assert ["02:00:00:00:00:14", "02:00:00:00:00:24"] == macs


@pytest.mark.parametrize(
    ("instances", "reason"),
    [
        (f"[{{links: {CABLES % (1, 1, 1, 1)}}}, {{}}]", "give the links of each instance, as many in each"),
        ("[{links: [{tg: {}, dut2: {}}]}]", "link 1 leads to a node that is not in nodes"),
    ],
)
def test_links_of_instances_are_checked(tmp_path: Path, instances: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        load("ours", written(tmp_path, f"{GOOD}instances: {instances}"))


def test_testbed_has_as_many_places_as_instances(tmp_path: Path) -> None:
    instances = "instances: [{tg: {address: a}}, {tg: {address: b}}]"

    assert 2 == load("ours", written(tmp_path, f"{GOOD}{instances}")).places
    assert 2 == load("ours", written(tmp_path, f"{GOOD}capacity: 2")).places
    assert 1 == load("ours", written(tmp_path, GOOD)).places


def test_testbed_has_its_own_lock_by_default(tmp_path: Path) -> None:
    assert "ours" == load("ours", written(tmp_path, GOOD)).lock


def test_unknown_testbed_names_the_nearest() -> None:
    with pytest.raises(SettingsError, match="testbed '1n-vet' is unknown; did you mean '1n-veth'"):
        load("1n-vet")


@pytest.mark.parametrize(
    "name", ["../testbeds/simulated", "/etc/passwd", "", "simulated.yaml", "simulated\0"]
)
def test_a_name_is_no_path(name: str) -> None:
    with pytest.raises(SettingsError, match="is unknown"):
        load(name)


def test_own_folder_adds_to_the_shipped_testbeds(tmp_path: Path) -> None:
    assert sorted([*SHIPPED, "ours"]) == names(written(tmp_path, GOOD))


def test_own_file_wins_over_the_shipped_one(tmp_path: Path) -> None:
    written(tmp_path, GOOD, "simulated")

    assert "ours" == load("simulated", tmp_path).description


def test_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"folder of testbeds .*nowhere does not exist; see the setting testbeds"
    ):
        load("simulated", tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GOOD + "colour: red", "colour: Extra inputs"),
        (GOOD + "mrr: {duration: 1}", "mrr.duration: Extra inputs"),
        (GOOD.replace("driver_tag: OURS", ""), "driver_tag: Field required"),
        (GOOD.replace("pps: 1000", "pps: 0"), "link.pps: Input should be greater than 0"),
        (GOOD.replace("pps: 1000", "pps: .inf"), "link.pps: Input should be a finite number"),
        (GOOD.replace("pps: 1000", ""), "give either pps or bits_per_s"),
        (GOOD.replace("pps: 1000", "pps: 1000, bits_per_s: 1000"), "give either pps or bits_per_s"),
        (GOOD + "nic: Intel E810", "nic: String should match pattern"),
        (GOOD + "capacity: 0", "capacity: Input should be greater"),
        (GOOD + "nodes: {tg: {cpu: any}}", "nodes.tg.cpu"),
        (GOOD + "nodes: {dutt: {cpu: 1}}", "node 'dutt' is unknown; did you mean 'dut'?"),
        (GOOD + "instances: [{tgg: {address: a}}]", "node 'tgg' is unknown; did you mean 'tg'?"),
        (GOOD + "capacity: 3\ninstances: [{}, {}]", "capacity is 3, but there are 2 instances"),
        (GOOD + "remote: true\nnodes: {dut: {cpu: auto}}", "node dut is remote: write the number of a core"),
        (GOOD + LINKS.replace("25G", '"25"'), "links.0.tg.speed: String should match pattern"),
        (GOOD + "links: [{tg: {}}]", "links.0: Value error, give the ports of two nodes"),
        (GOOD + "links: [{tg: {mac: 1}, dut: {}}]", "links.0.tg.mac"),
        (GOOD + "links: [{tg: {ip: 198.18.0.300/24}, dut: {}}]", "links.0.tg.ip"),
        (GOOD + "links: [{tg: {interface: 'a; b'}, dut: {}}]", "links.0.tg.interface"),
        (
            GOOD + "links: [{tg: {}, dut: {}, vlan: 0}]",
            "links.0.vlan: Input should be greater than or equal to 1",
        ),
        (GOOD + "links: [{tg: {}, dut: {}, vlan: 4095}]", "links.0.vlan: Input should be less than 4095"),
        (
            GOOD + "links: [{tg: {}, dut: {}, vlan: 7}, {tg: {}, dut: {}}]",
            "give the vlan of all links, or of",
        ),
        (GOOD + f"links: [{', '.join(['{tg: {}, dut: {}}'] * 5)}]", "links: Tuple should have at most 4"),
        ("generator: [", "is not a YAML mapping"),
        ("", "is not a YAML mapping"),
        ("- a list", "is not a YAML mapping"),
        ("!!python/object/apply:os.system ['false']", "is not a YAML mapping"),
    ],
)
def test_wrong_file_is_named_with_what_is_wrong(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        load("ours", written(tmp_path, text))

    assert "ours.yaml" in str(refused.value)
    assert told in str(refused.value)


def test_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(SettingsError, match=r"ours\.yaml is not a YAML mapping"):
        load("ours", tmp_path)


def test_unknown_driver_names_the_nearest() -> None:
    with pytest.raises(SettingsError, match="no wiring driver 'vet' is installed; did you mean 'veth'"):
        specification.driver("wirings", "vet")
    with pytest.raises(SettingsError, match="no traffic generator driver"):
        specification.driver("traffic_generators", "ixia")


@pytest.mark.parametrize(("frame_bytes", "rate_pps"), [(64, 29_761_904.8), (1518, 1_625_487.6)])
def test_link_rate_counts_both_directions_preamble_and_gap(frame_bytes: float, rate_pps: float) -> None:
    """10 Gbit/s carry 14.88 million frames of 64 bytes in each direction."""
    assert rate_pps == pytest.approx(LinkFile(bits_per_s=10e9).rate_pps(frame_bytes), rel=1e-6)


def test_slowest_port_is_the_highest_rate(tmp_path: Path) -> None:
    without = GOOD.replace("link: {pps: 1000}", "")

    assert 2.5e9 == load("ours", written(tmp_path, without + LINKS)).link.bits_per_s
    assert 1000 == load("ours", written(tmp_path, GOOD + LINKS)).link.pps
    for links in (LINKS.replace("speed: 2.5G, ", ""), ""):
        with pytest.raises(SettingsError, match="give link, or the speed of a port of each of the links"):
            load("ours", written(tmp_path, without + links))


def test_link_that_is_given_in_frames_carries_as_many_of_any_size() -> None:
    assert [5000.0, 5000.0] == [LinkFile(pps=5000).rate_pps(size) for size in (64, 1518)]


def test_link_carries_less_if_its_directions_have_different_shares() -> None:
    link = LinkFile(bits_per_s=10e9)

    assert link.rate_pps(64) == pytest.approx(2 * link.rate_pps(64, busiest_share=1.0))
    assert 5000.0 == LinkFile(pps=5000).rate_pps(64, busiest_share=1.0)


def test_links_have_vlans(tmp_path: Path) -> None:
    cables = load("ours", written(tmp_path, GOOD + LINKS.replace("}}", "}, vlan: 7}"))).links

    assert [7, 7] == [cable.link().vlan for cable in cables]
    assert [0, 0] == [cable.link().vlan for cable in load("ours", written(tmp_path, GOOD + LINKS)).links]
