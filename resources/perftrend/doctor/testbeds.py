"""Whether a testbed can be used by this user on this machine: its file, programs, namespaces and locks."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from perftrend import COMMAND, sandbox
from perftrend.doctor.check_results import Area, CheckResult
from perftrend.errors import PerftrendError, TestbedError, explain
from perftrend.measure import lock, specification
from perftrend.measure.specification import Specification
from perftrend.measure.testbed import Testbed
from perftrend.settings import Settings

_PROGRAMS = {
    "git": ("git", "to fetch and identify what is measured"),
    "ip": ("iproute2", "for testbeds in namespaces"),
    "tc": ("iproute2", "for 1n-kernel and 1n-xdp"),
    "nft": ("nftables", "for 1n-kernel and 1n-xdp"),
    "ethtool": ("ethtool", "for 1n-kernel and 1n-xdp"),
    "unshare": ("util-linux", "for testbeds in namespaces"),
    "nsenter": ("util-linux", "for testbeds in namespaces"),
}
"""The package of each program, and its use."""
_SSH = {"ssh": ("openssh-client", "for the events of Gerrit")}
_PACKAGE = re.compile(r"apt-get install ([a-z0-9.+-]+)")
_PREVENTS_NAMESPACES: Mapping[str, tuple[str, str]] = {
    "kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    "user/max_user_namespaces": ("0", "user.max_user_namespaces=15000"),
    "user/max_net_namespaces": ("0", "user.max_net_namespaces=15000"),
}
"""The values of kernel parameters that prevent network namespaces, and the value that permits them."""


def check(settings: Settings) -> Iterator[CheckResult]:
    """Check the testbed of the settings; no frame is sent.

    Its machines are only reached if its file names cores of them, to compare these with their ports.
    """
    yield _check_programs({**_PROGRAMS, **(_SSH if settings.gerrit.url else {})})
    yield _check_sandbox(is_trusted=settings.project.trusted)
    try:
        spec = specification.load(settings.testbed, settings.testbeds)
        testbed = Testbed(spec, device_options=settings.device_options)
        testbed.check()
    except PerftrendError as error:
        yield Area.TESTBED.fault(settings.testbed, str(error), "set testbed, or correct the testbed's file")
        return
    except ImportError as error:
        found = f"a driver of {settings.testbed} cannot be imported: {error}"
        yield Area.TESTBED.fault(settings.testbed, found, "install the package of the driver again")
        return
    yield _check_usable(testbed)
    yield _check_locks(spec)
    yield from _check_cores(testbed)


def _check_sandbox(*, is_trusted: bool) -> CheckResult:
    if is_trusted:
        found = "project.trusted is set: the code of changes under review can do all that a job can"
        return Area.MACHINE.warning("sandbox", found, "set project.trusted to false")
    try:
        launcher = sandbox.find_launcher()
    except TestbedError as error:
        found = f"changes under review cannot be built or measured: {error}"
        elsewhere = "use a machine that permits user namespaces, or set project.trusted to true"
        fix = elsewhere if shutil.which("bwrap") else "sudo apt-get install -y bubblewrap"
        return Area.MACHINE.warning("sandbox", found, fix)
    return Area.MACHINE.ok("sandbox", f"the code of changes under review is isolated by {launcher}")


def tolerates_load(settings: Settings) -> bool:
    """Return whether load on this machine does not disturb the testbed; False if its file is not valid."""
    try:
        return specification.load(settings.testbed, settings.testbeds).tolerates_load
    except PerftrendError:
        return False


def _check_programs(programs: Mapping[str, tuple[str, str]]) -> CheckResult:
    missing = [name for name in programs if not shutil.which(name)]
    if not missing:
        return Area.MACHINE.ok("programs", f"installed: {', '.join(programs)}")
    packages = sorted({programs[name][0] for name in missing})
    uses: dict[str, list[str]] = {}
    for name in missing:
        uses.setdefault(programs[name][1], []).append(name)
    found = "; ".join(f"{', '.join(names)} {use}" for use, names in uses.items())
    fix = _as_root(f"apt-get install -y {' '.join(packages)}")
    return Area.MACHINE.warning("programs", f"missing: {found}", fix)


def _check_usable(testbed: Testbed) -> CheckResult:
    name, fallback = testbed.spec.name, testbed.spec.fallback
    try:
        reason = testbed.unusable()
    except PerftrendError as error:
        reason = str(error)
    if not reason:
        return Area.TESTBED.ok(name, "this user can use it")
    fix = find_fix(reason)
    if fallback:
        return Area.TESTBED.warning(name, f"{reason}; {fallback} is used instead", fix)
    return Area.TESTBED.fault(name, reason, fix)


def find_fix(reason: str, proc: Path = Path("/proc")) -> str:
    """Return what makes a testbed usable, for the reason why it is not."""
    if found := _PACKAGE.search(reason):
        return _as_root(f"apt-get install -y {found[1]}")
    if "needs root" in reason:
        return f"sudo {COMMAND} trending"
    wrong = []
    for name, (value, permitted) in _PREVENTS_NAMESPACES.items():
        try:
            if (proc / "sys" / name).read_text().strip() == value:
                wrong.append(permitted)
        except OSError:
            continue
    if wrong:
        return _as_root(f"sysctl -w {' '.join(wrong)}")
    return "run it as root; in a container, add --cap-add=SYS_ADMIN --cap-add=NET_ADMIN"


def _check_locks(spec: Specification) -> CheckResult:
    what = f"{spec.name} lock"
    try:
        held = lock.holders(spec.lock, capacity=spec.places)
    except OSError as error:
        path = error.filename or f"{lock.FOLDER}/perftrend-{spec.lock}.0.lock"
        return Area.TESTBED.fault(what, explain(error), _as_root(f"rm {shlex.quote(str(path))}"))
    if not held:
        return Area.TESTBED.ok(what, "not in use")
    return Area.TESTBED.ok(what, f"in use by {', '.join(held)}; other jobs wait for it")


def _check_cores(testbed: Testbed) -> Iterator[CheckResult]:
    what = f"{testbed.spec.name} cores"
    try:
        found = testbed.find_distant_cores()
    except PerftrendError as error:
        yield Area.TESTBED.not_checked(what, str(error))
        return
    for each in found:
        yield Area.TESTBED.warning(what, str(each), f"choose one of the cores {each.better}")


def _as_root(command: str) -> str:
    return command if os.geteuid() == 0 else f"sudo {command}"
