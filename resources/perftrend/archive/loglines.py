"""Log lines of set-ups with the versions of the measured programs and the testbed.

Set-ups are skipped as text (see :mod:`perftrend.archive.xml_skip`), so the lines are searched in the text, in
XML and JSON alike: a line begins after a tag, a quote or a line break.
"""

from __future__ import annotations

import re

_OVERLAP_BYTES = 400
"""Bytes of a piece that are retained for the next one, since a line may extend over both."""

_HINTS = (b"ersion:", b"estbed:")
_LINE = re.compile(
    rb"""(?:[>"\n]|\\n)[ \t]*
    (?: (?P<what>VPP|DPDK|TRex)\ [Vv]ersion:\s*(?:DPDK\ )?(?P<version>v?\d[\w.~+-]*)
      | [Tt]estbed:\s*(?P<testbed>\w[\w.-]*) )
    (?=[\s<"\\])""",
    re.VERBOSE,
)
_ROLES = {"vpp": "device", "trex": "generator"}
"""Roles of programs; without VPP, DPDK is the device."""


class LogLines:
    """Collects values from the text of set-ups in pieces. The first line with a value counts."""

    def __init__(self) -> None:
        self.testbed = ""
        self._versions: dict[str, str] = {}
        self._rest = b""

    @property
    def versions(self) -> dict[str, str]:
        """``{"vpp": …, "dpdk": …, "device": …, "generator": …}``, as far as they are known."""
        roles = {_ROLES[name]: version for name, version in self._versions.items() if name in _ROLES}
        if "dpdk" in self._versions:
            roles.setdefault("device", self._versions["dpdk"])
        return self._versions | roles

    def search(self, piece: bytes) -> None:
        """Search the next piece of a set-up."""
        text = self._rest + piece
        self._rest = text[-_OVERLAP_BYTES:]
        if any(hint in text for hint in _HINTS):
            for found in _LINE.finditer(text):
                if found["testbed"]:
                    self.testbed = self.testbed or found["testbed"].decode()
                else:
                    self._versions.setdefault(found["what"].decode().lower(), found["version"].decode())

    def end(self) -> None:
        """End a set-up: the next piece belongs to another one."""
        self._rest = b""

    def field(self, name: str, value: str) -> None:
        """Search a suite's metadata, such as ``VPP version`` and its value."""
        self.end()
        self.search(f"\n{name}: {value}\n".encode())
        self.end()
