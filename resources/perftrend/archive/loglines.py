"""Log lines of set-ups that tell what is measured and by what.

Set-ups are skipped as text (see :mod:`perftrend.archive.outline`), so the lines are looked for in
the text, in XML and in JSON alike: a line begins behind a tag, a quote or a line break.
"""

from __future__ import annotations

import re

_KEEP_BYTES = 400
"""So much of a piece is kept for the next one: a line may begin in the one and end in the other."""

_HINTS = (b"ersion:", b"estbed:")
_LINE = re.compile(
    rb"""(?:[>"\n]|\\n)[ \t]*
    (?: (?P<what>VPP|DPDK|TRex)\ [Vv]ersion:\s*(?:DPDK\ )?(?P<version>v?\d[\w.~+-]*)
      | [Tt]estbed:\s*(?P<testbed>\w[\w.-]*) )
    (?=[\s<"\\])""",
    re.VERBOSE,
)
_ROLES = {"vpp": "device", "trex": "generator"}
"""What else a program is called; where there is no VPP, DPDK is the device."""


class LogLines:
    """Takes the text of set-ups in pieces. The first line that tells something counts."""

    def __init__(self) -> None:
        self.testbed = ""
        self._versions: dict[str, str] = {}
        self._rest = b""

    @property
    def versions(self) -> dict[str, str]:
        """``{"vpp": …, "dpdk": …, "device": …, "generator": …}``, as far as it was told."""
        roles = {_ROLES[name]: version for name, version in self._versions.items() if name in _ROLES}
        if "dpdk" in self._versions:
            roles.setdefault("device", self._versions["dpdk"])
        return self._versions | roles

    def take(self, piece: bytes) -> None:
        """Look at the next piece of a set-up."""
        text = self._rest + piece
        self._rest = text[-_KEEP_BYTES:]
        if any(hint in text for hint in _HINTS):
            for found in _LINE.finditer(text):
                if found["testbed"]:
                    self.testbed = self.testbed or found["testbed"].decode()
                else:
                    self._versions.setdefault(found["what"].decode().lower(), found["version"].decode())

    def end(self) -> None:
        """Take the next piece for another set-up."""
        self._rest = b""

    def field(self, name: str, value: str) -> None:
        """Look at a suite's metadata, such as ``VPP version`` and its value."""
        self.end()
        self.take(f"\n{name}: {value}\n".encode())
        self.end()
