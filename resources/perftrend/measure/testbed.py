"""An open testbed: wiring, generator and device together, ready to measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from perftrend import console, errors
from perftrend.measure import environment, numa, specification
from perftrend.measure.chain import ChainedDevice
from perftrend.measure.interfaces import Counters, Device, Node, TrafficGenerator, Wiring, vlan_option
from perftrend.measure.numa import DistantCore
from perftrend.measure.specification import Specification
from perftrend.measure.traffic import (
    TRAFFIC_ONLY,
    USUAL_LONGEST,
    FrameProfile,
    TrafficProfile,
    parse_frame_bytes,
)
from perftrend.measure.trial_validity import TrustedTrials, schedstat, two_cores
from perftrend.measure.wiring import run

_LOOKS = 2
"""Maximum number of measurements of the rate reached: a single one may have been disturbed."""
_WARM_UP_SHARES = (0.125, 0.25, 0.375, 0.5)
"""The device warms up at these fractions of the highest rate, one after the other."""
_NIC = "nic"
"""The option of tests that need network cards of a model."""
_FORWARDED_SHARE = 0.995
"""A device that forwards at least this fraction of the offered rate is not at its limit."""


class Testbed:
    """A testbed built from its file, open within a ``with`` block.

    :param spec: the contents of the testbed file.
    :param attempts: maximum number of attempts at a trial that is not valid.
    :param device_options: options from the user, which override those of a test.
    :param instance: number of the instance that the job has locked, from 0.
    :param owner: name of this job, for messages of jobs on other machines.
    :param wait_s: maximum time to wait for a job on another machine.
    :param token: that of this job's lock on the generator's node, see :meth:`locked`; empty if it has none.
    """

    # Otherwise pytest would collect a class of this name as tests.
    __test__ = False

    def __init__(
        self,
        spec: Specification,
        *,
        attempts: int = 5,
        device_options: Mapping[str, str] | None = None,
        instance: int = 0,
        owner: str = "a job",
        wait_s: float = 0.0,
        token: str = "",
    ) -> None:
        self.spec = spec = spec.of_instance(instance)
        self._owner = owner
        self._wait_s = wait_s
        self._token = token
        named = {node.cpu for node in spec.nodes.values() if isinstance(node.cpu, int)}
        generator_core, device_core = two_cores(named)
        nodes = {name: _node(spec, name, instance, device_core) for name in spec.devices}
        nodes = {"tg": _node(spec, "tg", instance, generator_core), **nodes}
        wiring = specification.driver("wirings", spec.wiring.driver)
        try:
            self._wiring: Wiring = wiring(nodes, [each.link() for each in spec.links], **spec.wiring.options)
        except TypeError as error:
            raise errors.SettingsError(
                f"testbed {spec.name}: wiring {spec.wiring.driver}: {error}; see the testbed's file"
            ) from None
        for name, node in spec.nodes.items():
            if node.cpu == "auto" and self._wiring.is_node_remote(name):
                raise errors.SettingsError(
                    f"testbed {spec.name}: node {name} is remote: write the number of a core of it, or "
                    "omit cpu"
                )
            if spec.remote and self._wiring.is_remote and not self._wiring.is_node_remote(name):
                raise errors.SettingsError(
                    f"testbed {spec.name}: node {name} is this machine, whose load disturbs results: "
                    "omit remote"
                )
        generator = specification.driver("traffic_generators", spec.generator.driver)
        self.generator: TrafficGenerator = generator(self._wiring, nodes["tg"], spec.generator.options)
        device = specification.driver("devices", spec.device.driver)
        devices = {name: nodes[name] for name in spec.devices}
        self.device: Device = (
            device(self._wiring, nodes["dut"])
            if len(devices) == 1
            else ChainedDevice(device, self._wiring, devices)
        )
        self._user_options = dict(device_options or {})
        self._link_vlan = vlan_option(self._wiring.links)
        self._options: dict[str, str] = {}
        self._device_options: dict[str, str] = {}
        """Those that the device runs with."""
        self.traffic = TrafficProfile(FrameProfile.parse("64B"))
        self.maximum_pps = 0.0
        """The highest rate to measure at with the selected traffic, all directions together."""
        self.trials = TrustedTrials(
            self.generator,
            self._busy_processes,
            attempts=attempts,
            device=self.device,
            is_simulated=spec.simulated,
        )

    def __enter__(self) -> Testbed:
        self.check()
        if reason := self.unusable():
            raise errors.TestbedError(f"testbed {self.spec.name} cannot be used here: {reason}")
        self._wiring.open()
        try:
            self._lock()
            self._wiring.end_left_overs()
            self.generator.open()
        except BaseException:
            self._wiring.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.device.stop()
        finally:
            try:
                self.generator.close()
            finally:
                self._wiring.close()

    @contextmanager
    def locked(self) -> Iterator[str]:
        """Reserve the testbed for this job without opening it.

        :returns: the token for testbeds that this job opens meanwhile, in any process; empty if the testbed
            is on this machine.
        :raises TestbedError: if a job on another machine uses the testbed, or the machine of the generator
            cannot be reached.
        """
        try:
            yield self._lock()
        finally:
            self._wiring.close()

    def _lock(self) -> str:
        return self._wiring.lock(self.spec.lock, self._owner, self._wait_s, self._token)

    def verify_lock(self) -> None:
        """Raise a TestbedError if another job may have used the testbed since it was locked."""
        self._wiring.verify_lock()

    def ssh(self) -> list[tuple[Sequence[str], str]]:
        """Return the options of ``ssh`` and ``scp``, and the address, of the machine of each device.

        :raises SettingsError: if one is not reached by ssh.
        """
        return [self._wiring.ssh(name) for name in self.spec.devices]

    def unusable(self) -> str:
        """Return why this machine or user cannot use this testbed; empty if they can."""
        return self._wiring.unusable() or self.device.unusable()

    def find_distant_cores(self) -> list[DistantCore]:
        """Find cores that are on another NUMA node than the ports of their machine; the testbed is not open.

        :raises TestbedError: if a machine cannot be reached.
        """
        if not numa.find_cores(self.spec):
            return []
        try:
            self._wiring.open()
            return list(numa.find_distant_cores(self.spec, self._wiring))
        finally:
            self._wiring.close()

    def check(self) -> None:
        """Validate the device options. :raises SettingsError: naming the invalid option."""
        self.device.check(_of_device(self._complete({})))

    def lacks(self, options: Mapping[str, str], frame: str = "64B") -> str:
        """Return why wiring or device cannot run a test with these options and frames; empty if they can."""
        if (nic := options.get(_NIC, self.spec.nic)) != self.spec.nic:
            return f"network card {nic}: the testbed has {self.spec.nic or 'none with a name'}"
        vlan = {**self.spec.device.options, **options, **self._user_options}.get("vlan", "0")
        if self._link_vlan and vlan != "0":
            return f"vlan={vlan}: the links of the testbed have VLANs, and frames have one tag only"
        complete = _of_device(self._complete(options, frame))
        longest = parse_frame_bytes(complete)
        reason = self._wiring.lacks(longest) if longest > USUAL_LONGEST else ""
        return reason or self.device.lacks(complete)

    def lacks_traffic(self, frame: str) -> str:
        """Return why the generator cannot send the traffic of the test; empty if it can."""
        return self.generator.lacks(TrafficProfile.parse(frame, self._options))

    def start_device(self, options: Mapping[str, str], frame: str = "64B") -> None:
        """Start a new instance of the device with a test's options, which the user's options override.

        :param frame: a name for :meth:`~perftrend.measure.traffic.FrameProfile.parse`; the device is set up
            for frames of up to its longest.
        """
        self._options = self._complete(options, frame)
        self._start_device()

    def restart_device(self) -> None:
        """Stop the device and start it again with the same options."""
        self.device.stop()
        self._start_device()
        self._warm_up()

    def _start_device(self) -> None:
        self._device_options = _of_device(self._options)
        self._wiring.carry(parse_frame_bytes(self._device_options))
        self.device.start(self._device_options)

    def reconfigure_device(self, options: Mapping[str, str]) -> None:
        """Change options of the running device until its next start; :meth:`lacks_change` must allow it."""
        changed = {**self._device_options, **options}
        self.device.reconfigure(self._device_options, changed)
        self._device_options = changed

    def lacks_change(self, options: Mapping[str, str]) -> str:
        """Return why the running device cannot change to these options of a test; empty if it can.

        :raises SettingsError: for an invalid value, and for one that is not greater than that of the start.
        """
        changed = _of_device({**self._options, **options})
        self.device.check(changed)
        if fixed := [name for name in options if name not in self.device.reconfigurable]:
            return f"the device cannot change {' and '.join(fixed)} while it runs"
        for name, value in options.items():
            started = self._options.get(name, "0")
            if int(value) <= int(started):
                raise errors.SettingsError(
                    f"device option {name}={value}: the device is started with {started}; "
                    "change it to a greater number"
                )
        return self.device.lacks(changed)

    def _complete(self, options: Mapping[str, str], frame: str = "64B") -> dict[str, str]:
        length = FrameProfile.parse(frame).frame_bytes
        return {**self.spec.device.options, **length, **options, **self._user_options, **self._link_vlan}

    def use(self, frame: str) -> None:
        """Select the traffic and determine its highest rate; the device must be started.

        :param frame: a name for :meth:`~perftrend.measure.traffic.FrameProfile.parse`. The options of the
            test describe the rest of the traffic.
        :raises SettingsError: if the device was started for shorter frames.
        """
        self.traffic = TrafficProfile.parse(frame, self._options)
        longest = parse_frame_bytes(self._options)
        if max(self.traffic.frame.sizes) > longest:
            raise errors.SettingsError(
                f"frame {frame!r}: the device was started for frames of up to {longest} bytes; "
                f"write Start Device    {frame}, and set no shorter frame_bytes"
            )
        self._select_traffic()
        self.maximum_pps = self._measure_maximum_pps()
        self.trials.begin_test(self._shares)
        self._warm_up()

    def _select_traffic(self) -> None:
        """Select the traffic, by a restarted generator if it was left unusable by an earlier test."""
        try:
            self.generator.use(self.traffic)
        except errors.TestbedError as error:
            console.warn(f"the traffic generator does not respond ({error}); restarting it")
            self.generator.close()
            self.generator.open()
            self.generator.use(self.traffic)

    def _warm_up(self) -> None:
        """Send traffic that does not count, at a rising rate.

        Before a device meets a high rate, it has learned the addresses of its neighbours, filled its caches
        and raised the frequency of its cores.
        """
        if not self.spec.warm_up_s:
            return
        step_s = self.spec.warm_up_s / len(_WARM_UP_SHARES)
        for share in _WARM_UP_SHARES:
            self.generator.trial(share * self.maximum_pps, step_s, None)

    def _measure_maximum_pps(self) -> float:
        """Return the link rate, or the rate that the generator sustains if that is lower."""
        reached_pps = 0.0
        for _ in range(_LOOKS):
            reached_pps = max(reached_pps, self.generator.highest_pps())
            if reached_pps >= self.link_pps:
                return self.link_pps
        return reached_pps

    @property
    def link_pps(self) -> float:
        """The link rate for the selected traffic, all directions together."""
        traffic = self.traffic
        return self.spec.link.rate_pps(traffic.frame.mean_bytes, busiest_share=max(self._shares))

    @property
    def _shares(self) -> tuple[float, ...]:
        """The fraction of the frames in each direction."""
        # Drivers that simulate their links have two.
        return self.traffic.shares(len(self._wiring.generator_ports or self._wiring.links) or 2)

    def generator_limit(self, received_pps: float, *, relative_width: float = 0.0) -> str:
        """Return a message if the generator, not the device, limited a rate; empty otherwise.

        A device that forwards all that the *link* carries is as fast as can be measured. A device that
        forwards all that the generator can send has not been measured at all.

        :param relative_width: of the interval that begins at the rate: it may end at the highest rate.
        """
        share = min(_FORWARDED_SHARE, 1 - relative_width)
        if self.maximum_pps >= self.link_pps or received_pps < share * self.maximum_pps:
            return ""
        what = "the device forwarded them all"
        if received_pps < _FORWARDED_SHARE * self.maximum_pps:
            what = "the highest rate that the device forwards may be beyond that"
        return (
            f"limited by the generator: it reaches {self.maximum_pps:.0f} of the link's "
            f"{self.link_pps:.0f} pps, and {what}"
        )

    def versions(self) -> dict[str, str]:
        """Return the versions of the device and the generator."""
        return {"device": self.device.version, "generator": self.generator.version}

    def read_environment(self) -> dict[str, str]:
        """Return what the machines have besides the versions, see :mod:`perftrend.measure.environment`."""
        return environment.read_environment(self.spec, self._wiring)

    def counters(self) -> Counters:
        """Return all counters of generator, device, interfaces and softnet, and the CPU time per process."""
        return {
            "generator": self.generator.counters(),
            "device": self.device.counters(),
            "interfaces": self._of_nodes("/proc/net/dev", _interfaces),
            "softnet": self._of_nodes("/proc/net/softnet_stat", _softnet),
            "cpu": {str(process): _cpu(process) for process in self._busy_processes()},
        }

    def _of_nodes(self, file: str, read: Callable[[str], Any]) -> Counters:
        """Return the parsed contents of a kernel file on all nodes; empty if no kernel has the ports."""
        if not self._wiring.generator_ports:
            return {}
        nodes = ("tg", *self.spec.devices)
        return {node: read(run(self._wiring.at_node(node, ["cat", file]))) for node in nodes}

    def _busy_processes(self) -> list[int]:
        # On other machines, the processes with these numbers are others.
        is_remote = self._wiring.is_node_remote
        if self.spec.remote:
            return []
        return [
            *([] if is_remote("tg") else self.generator.busy_processes()),
            *([] if any(map(is_remote, self.spec.devices)) else self.device.busy_processes()),
        ]


def _of_device(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that concern the device."""
    return {name: value for name, value in options.items() if name not in {*TRAFFIC_ONLY, _NIC}}


def _node(spec: Specification, name: str, instance: int, chosen_core: int | None) -> Node:
    file = spec.nodes.get(name, specification.NodeFile())
    cpu = chosen_core if file.cpu == "auto" else file.cpu
    return Node(cpu=cpu, options=spec.options(name, instance))


def _interfaces(text: str) -> dict[str, dict[str, int]]:
    """Parse /proc/net/dev (proc_net_dev(5)): bytes, packets, errors and drops, received and sent."""
    names = (
        "rx_bytes",
        "rx_packets",
        "rx_errors",
        "rx_drops",
        "tx_bytes",
        "tx_packets",
        "tx_errors",
        "tx_drops",
    )
    found = {}
    for line in text.splitlines()[2:]:
        interface, _, fields = line.partition(":")
        numbers = [int(field) for field in fields.split()]
        found[interface.strip()] = dict(zip(names, numbers[0:4] + numbers[8:12], strict=True))
    return found


def _softnet(text: str) -> list[dict[str, int]]:
    """Parse /proc/net/softnet_stat: a line of hexadecimal numbers for each core."""
    rows = [[int(field, 16) for field in line.split()] for line in text.splitlines()]
    return [{"processed": row[0], "dropped": row[1], "squeezed": row[2]} for row in rows]


def _cpu(process: int) -> dict[str, float]:
    """Return the seconds that a process has run and has waited for its core."""
    counted = schedstat(process)
    return {"ran_s": counted[0], "waited_s": counted[1]} if counted else {}
