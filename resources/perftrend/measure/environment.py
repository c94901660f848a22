"""The environment of a run: what the machines of a testbed have besides the product.

It may explain a change. Everything is read from the machines as they are, and what they do not show is left
out. Only kernel parameters that influence the speed are recorded: others may contain names or secrets.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import version

from perftrend.measure.interfaces import Wiring
from perftrend.measure.specification import PortFile, Specification
from perftrend.measure.wiring import run

_LONGEST = 200
"""Characters of a value; a longer one is cut."""
_HOST = "host"

# A line for each part, such as ``kernel=6.1.0-18-amd64``. Arguments: interfaces or PCI addresses of ports.
_SCRIPT = r"""
PATH=$PATH:/usr/sbin:/sbin
first() { head -n 1 "$1" 2>/dev/null; }
say() { [ -z "$2" ] || printf '%s=%s\n' "$1" "$2"; }
of_cpu() { sed -n "s/^$1[[:space:]]*: //p" /proc/cpuinfo | sort -u | head -n 1; }
of_cores() {
    cat /sys/devices/system/cpu/cpu[0-9]*/cpufreq/"$1" 2>/dev/null | sort -u | head -n 9 | paste -s -d ' '
}

say host "$(uname -n)"
say kernel "$(uname -r) $(uname -v)"
say distribution "$(sed -n 's/^PRETTY_NAME="\{0,1\}\([^"]*\).*/\1/p' /etc/os-release 2>/dev/null)"
say processor "$(of_cpu 'model name')"
say microcode "$(of_cpu microcode)"
say cores "$(first /sys/devices/system/cpu/online)"
say isolated_cores "$(first /sys/devices/system/cpu/isolated)"
say hyperthreading "$(first /sys/devices/system/cpu/smt/control)"
say governor "$(of_cores scaling_governor)"
say highest_khz "$(of_cores scaling_max_freq)"
say boost "$(first /sys/devices/system/cpu/cpufreq/boost)"
say no_turbo "$(first /sys/devices/system/cpu/intel_pstate/no_turbo)"
say hugepages "$(sed -n 's/^HugePages_Total: *//p' /proc/meminfo)"
say transparent_hugepages "$(first /sys/kernel/mm/transparent_hugepage/enabled)"
for name in sys_vendor product_name bios_version bios_date; do
    say "$name" "$(first /sys/class/dmi/id/$name)"
done
for file in /sys/devices/system/cpu/vulnerabilities/*; do
    found=$(first "$file")
    [ "$found" = "Not affected" ] || say "mitigation ${file##*/}" "$found"
done
for word in $(cat /proc/cmdline 2>/dev/null); do
    case ${word%%=*} in
        isolcpus | nohz* | rcu_nocb* | irqaffinity | *hugepage* | mitigations | nosmt | idle | *cstate* | \
        *pstate* | *iommu | tsc | clocksource | skew_tick | numa_balancing | nopti | pti | no*spec* | \
        spec* | retbleed | pcie_aspm | audit | nmi_watchdog | nosoftlockup | mce)
            say "kernel parameter ${word%%=*}" "$word" ;;
    esac
done
hottest=$(cat /sys/class/thermal/thermal_zone*/temp /sys/class/hwmon/hwmon*/temp*_input 2>/dev/null |
    sort -n | tail -n 1)
[ -z "$hottest" ] || say temperature "$((hottest / 1000))"
for port; do
    interface=$port
    [ ! -d "/sys/bus/pci/devices/$port/net" ] || interface=$(ls "/sys/bus/pci/devices/$port/net" | head -n 1)
    found=$(ethtool -i "$interface" 2>/dev/null) || continue
    for name in driver version firmware-version; do
        say "port $port $name" "$(printf '%s\n' "$found" | sed -n "s/^$name: //p")"
    done
done
{
    dpkg-query -W -f '${binary:Package} ${Version}\n' || rpm -qa --qf '%{NAME} %{VERSION}-%{RELEASE}\n'
} 2>/dev/null | while read -r package version; do
    case ${package%%:*} in
        dpdk | librte-eal[0-9]* | openvswitch-switch | openvswitch-switch-dpdk | vpp | vpp-plugin-* | trex | \
        libbpf[0-9]* | libxdp[0-9]* | libibverbs1 | rdma-core | libnuma1 | nftables | \
        intel-microcode | amd64-microcode | microcode_ctl | firmware-* | linux-firmware)
            say "package ${package%%:*}" "$version" ;;
    esac
done
:
"""


def read_environment(spec: Specification, wiring: Wiring) -> dict[str, str]:
    """Return the environment of a testbed by the names of its parts, such as ``dut: kernel``.

    If all nodes are on this machine, the names have no node.

    :param wiring: it must be open.
    :returns: texts of up to 200 printable characters; empty if the testbed is simulated, or if its drivers
        reach the machines by ways of their own.
    :raises TestbedError: if a machine cannot be reached.
    """
    if spec.simulated or (spec.remote and not wiring.is_remote):
        return {}
    if not wiring.is_remote:
        own = {"python": platform.python_version(), "numpy": version("numpy")}
        found = own | _read(wiring, "tg", [])
        # A container has another name in every run.
        return {name: value for name, value in found.items() if name != _HOST}
    return {
        f"{node}: {name}": value
        for node in ("tg", *spec.devices)
        for name, value in _read(wiring, node, [*_ports(spec, node)]).items()
    }


def _ports(spec: Specification, node: str) -> Iterator[str]:
    return (_name(cable.ends[node]) for cable in spec.links if node in cable.ends)


def _name(port: PortFile) -> str:
    """Return the PCI address of a port with its domain, or its interface."""
    if port.pci:
        return port.pci if port.pci.count(":") > 1 else f"0000:{port.pci}"
    return port.interface


def _read(wiring: Wiring, node: str, ports: list[str]) -> dict[str, str]:
    lines = run(wiring.at_node(node, ["sh", "-c", _SCRIPT, "sh", *ports])).splitlines()
    pairs = (line.partition("=") for line in lines)
    return {
        _printable(name): text for name, sign, value in pairs if name and sign and (text := _printable(value))
    }


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)[:_LONGEST].strip()
