"""Testbed files, and the plans of measurements that they complete.

``NAME.yaml`` describes the parts of a testbed and how to measure on it. The parameters of a plan are
settings, or else values of that file. Jobs that only estimate a duration need a plan, but not the procedure
that carries it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import entry_points
from importlib.resources.abc import Traversable
from ipaddress import IPv4Interface, IPv6Interface
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from perftrend import errors
from perftrend.measure.interfaces import Link, Port
from perftrend.measure.traffic import LINK_COUNTS, VLANS
from perftrend.settings.sections import SearchSettings, SoakSettings, TrialSettings

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


_LONGEST_LATENCY_S = 10.0
RECONF_S = 10.0
"""The usual duration of a trial under which the device is reconfigured."""


class _SpecificationModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_UNITS = {"M": 1e6, "G": 1e9}
"""Of the speed of a port."""
NODES = ("tg", "dut", "dut2", "dut3")
"""The traffic generator, and the devices under test in the order of their chain."""


class NodeFile(_SpecificationModel):
    """A node: the core for its busy process (``auto``, a number, or none) and the options of its driver."""

    cpu: int | Literal["auto"] | None = None
    options: Mapping[str, str] = {}


class DriverFile(_SpecificationModel):
    """A driver by the name of its entry point, and its options."""

    driver: str
    options: Mapping[str, str] = {}


class PortFile(_SpecificationModel):
    """A port of a node: see :class:`perftrend.measure.interfaces.Port`."""

    interface: Annotated[str, Field(pattern=r"^[\w.:@-]{0,15}$")] = ""
    mac: Annotated[str, Field(pattern=r"^([0-9a-f]{2}(:[0-9a-f]{2}){5})?$")] = ""
    pci: Annotated[str, Field(pattern=r"^([0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$|^$")] = ""
    ip: IPv4Interface | IPv6Interface | None = None
    numa: Annotated[int, Field(ge=0)] | None = None
    """The NUMA node of its card, if the kernel does not know it."""
    speed: Annotated[str, Field(pattern=r"^[0-9]{1,4}(\.[0-9])?[MG]$")] | None = None
    """In bits per second, such as ``25G``."""

    @property
    def name(self) -> str:
        """What the port is called in messages."""
        return self.pci or self.interface or self.mac

    @property
    def bits_per_s(self) -> float | None:
        """The speed; None if it is not given."""
        return float(self.speed[:-1]) * _UNITS[self.speed[-1]] if self.speed else None

    def port(self) -> Port:
        """Return the port."""
        return Port(self.interface, self.mac, self.pci, str(self.ip or ""))


class CableFile(_SpecificationModel):
    """A link between two nodes: the port at each end."""

    tg: PortFile | None = None
    dut: PortFile | None = None
    dut2: PortFile | None = None
    dut3: PortFile | None = None
    vlan: Annotated[int, Field(ge=VLANS.start, lt=VLANS.stop)] | None = None
    """The VLAN that a switch between the ports has for this link."""

    @model_validator(mode="after")
    def _two_ends(self) -> CableFile:
        if len(self.ends) != 2:  # noqa: PLR2004
            raise ValueError("give the ports of two nodes, such as tg and dut")
        if "tg" not in self.ends and not all(port.mac for port in self.ends.values()):
            raise ValueError("a link between two devices needs the mac of both ports")
        return self

    @property
    def bits_per_s(self) -> float | None:
        """The speed of the slower of its ports; None if it is not given."""
        return min((port.bits_per_s for port in self.ends.values() if port.bits_per_s), default=None)

    @property
    def ends(self) -> dict[str, PortFile]:
        """The ports by their nodes, the generator's first, and then in the order of the chain."""
        ports = {name: getattr(self, name) for name in NODES}
        return {name: port for name, port in ports.items() if port is not None}

    def link(self) -> Link:
        """Return the link."""
        (near, near_port), (far, far_port) = self.ends.items()
        return Link(near_port.port(), far_port.port(), "", near, far, self.vlan or 0)


class InstanceFile(_SpecificationModel):
    """A set of machines: the options of nodes in which it differs from others, and its cables."""

    tg: Mapping[str, str] = {}
    dut: Mapping[str, str] = {}
    dut2: Mapping[str, str] = {}
    dut3: Mapping[str, str] = {}
    links: Annotated[tuple[CableFile, ...], Field(max_length=max(LINK_COUNTS))] = ()
    """Empty: those of the testbed."""

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, data: object) -> object:
        for name in data if isinstance(data, Mapping) else ():
            if name not in cls.model_fields:
                raise ValueError(f"node {name!r} is unknown{errors.nearest(name, NODES)}")
        return data


class LinkFile(_SpecificationModel):
    """Capacity of the links: a frame rate for all directions together, or a bit rate for each."""

    pps: Positive | None = None
    bits_per_s: Positive | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> LinkFile:
        if (self.pps is None) == (self.bits_per_s is None):
            raise ValueError("give either pps or bits_per_s")
        return self

    def rate_pps(self, frame_bytes: float, *, busiest_share: float = 0.5) -> float:
        """Return the highest rate for frames of this mean length, all directions together, in pps.

        :param busiest_share: the fraction of the frames in the direction that has most of them.
        """
        if self.pps is not None:
            return self.pps
        assert self.bits_per_s is not None  # noqa: S101 - see _one_of_them
        preamble_and_gap = 20
        return self.bits_per_s / 8 / (frame_bytes + preamble_and_gap) / busiest_share


class MrrFile(_SpecificationModel):
    """Defaults of MRR measurements on the testbed."""

    duration_s: Positive = 1.0
    multiplicity: Annotated[int, Field(ge=1)] = 10
    starts: Annotated[int, Field(ge=1)] = 1


class SearchFile(_SpecificationModel):
    """Defaults of searches for NDR and PDR on the testbed."""

    initial_duration_s: Positive = 1.0
    final_duration_s: Positive = 30.0
    minimum_pps: Positive = 20_000.0


class Specification(_SpecificationModel):
    """The contents of a testbed file."""

    name: str
    description: str
    nodes: Mapping[str, NodeFile] = {}
    wiring: DriverFile = DriverFile(driver="none")
    generator: DriverFile
    device: DriverFile
    own_link: Annotated[LinkFile | None, Field(alias="link")] = None
    """The key ``link``; without it, the speed of the ports counts."""
    links: Annotated[tuple[CableFile, ...], Field(max_length=max(LINK_COUNTS))] = ()
    """The cables between the nodes, in the order of a chain, if the wiring does not create them."""
    mrr: MrrFile = MrrFile()
    search: SearchFile = SearchFile()
    warm_up_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Duration of the traffic before the first trial after each start of the device."""
    driver_tag: str
    """Suffix of the tag of all tests: ``DRV_`` and this value."""
    nic: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$")] | None = None
    """The model of the network cards, such as ``Intel-E810CQ``."""
    capacity: Annotated[int, Field(ge=1)] = 1
    """Number of jobs that may use it at once, if it has no instances."""
    instances: tuple[InstanceFile, ...] = ()
    """Equivalent sets of machines, of which a job uses one."""
    lock: str = ""
    """Testbeds with the same lock share machines; by default each has its own lock."""
    fallback: str = ""
    """The testbed to use if this one is not available."""
    remote: bool = False
    """Whether generator and device run on other machines than the job."""
    simulated: bool = False

    @model_validator(mode="after")
    def _check_consistency(self) -> Specification:
        for name, node in self.nodes.items():
            if name not in NODES:
                raise ValueError(f"node {name!r} is unknown{errors.nearest(name, NODES)}")
            if self.remote and node.cpu == "auto":
                raise ValueError(f"node {name} is remote: write the number of a core of it, or omit cpu")
        for name in self.nodes:
            if name not in {"tg", *self.devices}:
                raise ValueError(f"node {name} needs the node before it in the chain of devices")
        for number in range(len(self.instances) or 1):
            self.of_instance(number).check_links()
        if len({len(self.of_instance(number).links) for number in range(len(self.instances))}) > 1:
            raise ValueError("give the links of each instance, as many in each")
        if self.instances and self.capacity not in {1, len(self.instances)}:
            raise ValueError(f"capacity is {self.capacity}, but there are {len(self.instances)} instances")
        return self

    def of_instance(self, number: int) -> Specification:
        """Return the specification with the links of an instance."""
        own = self.instances[number].links if self.instances else ()
        return self.model_copy(update={"links": own}) if own else self

    def check_links(self) -> None:
        """Raise a ValueError if the links do not fit the nodes, or each other."""
        chain = ["tg", *self.devices, "tg"]
        expected = [set(pair) for pair in pairwise(chain)]
        is_chain = len(self.devices) > 1
        for number, cable in enumerate(self.links):
            if not set(cable.ends) <= {"tg", *self.devices}:
                raise ValueError(f"link {number + 1} leads to a node that is not in nodes")
        if is_chain and self.links and [set(cable.ends) for cable in self.links] != expected:
            names = ", ".join("-".join(pair) for pair in pairwise(chain))
            raise ValueError(f"the links of a chain of devices are, in this order, {names}")
        if self.own_link is None and not self._speeds:
            raise ValueError("give link, or the speed of a port of each of the links")
        if len({cable.vlan is None for cable in self.links}) > 1:
            raise ValueError("give the vlan of all links, or of none: frames are as long on all of them")

    @property
    def link(self) -> LinkFile:
        """The capacity of the links."""
        return self.own_link or LinkFile(bits_per_s=min(self._speeds))

    @property
    def _speeds(self) -> list[float]:
        """The speed of each link; empty unless all are known."""
        known = [cable.bits_per_s for cable in self.links if cable.bits_per_s]
        return known if len(known) == len(self.links) else []

    @property
    def devices(self) -> tuple[str, ...]:
        """The nodes of the devices: ``dut``, and those that follow it in a chain."""
        following = takewhile(lambda name: name in self.nodes, NODES[2:])
        return ("dut", *following)

    @property
    def places(self) -> int:
        """The number of jobs that may use it at once."""
        return len(self.instances) or self.capacity

    def options(self, node: str, instance: int) -> Mapping[str, str]:
        """Return the driver options of a node in one of the instances."""
        common = self.nodes[node].options if node in self.nodes else {}
        own: Mapping[str, str] = getattr(self.instances[instance], node) if self.instances else {}
        return {**common, **own}

    @property
    def tolerates_load(self) -> bool:
        """Whether other work on this machine, such as a build, does not disturb measurements."""
        return self.remote or self.simulated

    @property
    def test_tags(self) -> tuple[str, ...]:
        """The tags of all tests on it: port driver, network card, and ``LATENCY`` if it measures latency.

        Each port driver and each network card has separate traces, and a search that fails has results of its
        latencies, too.
        """
        measures_latency = self.generator.options.get("latency") == "yes"
        nic = (f"NIC_{self.nic}",) if self.nic else ()
        return (f"DRV_{self.driver_tag}", *nic, *(("LATENCY",) if measures_latency else ()))


def load(name: str, folder: Path | None = None) -> Specification:
    """Read a testbed file; a file in the team's own folder overrides one in the package.

    :raises SettingsError: for an invalid file, or for an unknown name, naming the nearest.
    """
    files = dict(_files(folder))
    if name not in files:
        raise errors.SettingsError(f"testbed {name!r} is unknown{errors.nearest(name, files)}")
    try:
        content = yaml.safe_load(files[name].read_text(encoding="utf-8"))
        return Specification.model_validate({"name": name, "lock": name, **content})
    except (yaml.YAMLError, UnicodeDecodeError, TypeError) as error:
        raise errors.SettingsError(f"testbed file {files[name]} is not a YAML mapping: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise errors.SettingsError(f"testbed file {files[name]}: {place}: {first['msg']}") from None


def names(folder: Path | None = None) -> list[str]:
    """Return the names of all testbeds that can be loaded."""
    return sorted(dict(_files(folder)))


def _files(folder: Path | None) -> Iterator[tuple[str, Traversable]]:
    shipped = resources.files("perftrend") / "testbeds"
    for place in (shipped, folder):
        if place is None:
            continue
        if not place.is_dir():
            raise errors.SettingsError(f"folder of testbeds {place} does not exist; see the setting testbeds")
        for file in place.iterdir():
            if file.name.endswith(".yaml"):
                yield file.name.removesuffix(".yaml"), file


def driver(group: str, name: str) -> Any:  # noqa: ANN401 - an entry point may name any class
    """Load a driver's class by the name of its entry point.

    :param group: ``wirings``, ``traffic_generators`` or ``devices``.
    :raises SettingsError: for an unknown name, naming the nearest.
    """
    found = {point.name: point for point in entry_points(group=f"perftrend.{group}")}
    if name not in found:
        kind = group.rstrip("s").replace("_", " ")
        raise errors.SettingsError(f"no {kind} driver {name!r} is installed{errors.nearest(name, found)}")
    return found[name].load()


class MrrPlan(TrialSettings):
    """The settings of trials, complete for an MRR measurement."""

    duration_s: float
    multiplicity: int
    starts: int

    @classmethod
    def complete(cls, settings: TrialSettings, usual: MrrFile) -> Self:
        """Return a plan by the settings, and by the testbed file for those that are not given."""
        return cls(**usual.model_dump() | settings.model_dump(exclude_none=True))


class SearchPlan(SearchSettings):
    """The settings of searches, complete for a search for NDR and PDR."""

    initial_duration_s: float
    final_duration_s: float
    minimum_pps: float

    @classmethod
    def complete(cls, settings: SearchSettings, usual: SearchFile) -> Self:
        """Return a plan by the settings, and by the testbed file for those that are not given."""
        return cls(**usual.model_dump() | settings.model_dump(exclude_none=True))

    @property
    def latency_duration_s(self) -> float:
        """The duration of a trial that measures latency; a longer one would only add to the test's time."""
        return min(self.final_duration_s, _LONGEST_LATENCY_S)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of the MDR search that are settings of the same name."""
        return self.model_dump(exclude={"loss_ratio", "loss_ratios"})


class SoakPlan(SoakSettings):
    """The settings of soak tests, and the lowest rate of a search."""

    minimum_pps: float


@dataclass(frozen=True, slots=True)
class ReconfPlan:
    """Plan of a test that reconfigures the device under traffic."""

    changes: Mapping[str, str]
    """The options of the device that change, with their new values."""
    search: SearchPlan
    """How NDR is searched."""
    rate_pps: float = 0.0
    """The rate of the traffic; 0 for 90 % of NDR."""
    duration_s: float = RECONF_S
    """Duration of the trial, and of another one without reconfiguration before it."""


@dataclass(frozen=True, slots=True)
class HoldPlan:
    """Plan of a test that holds one rate."""

    rate_pps: float
    duration_s: float
    """Duration of all slices together."""
    slices: int
