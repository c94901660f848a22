"""Doubles as programs that are installed on a machine, where a driver or a person starts them."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.doubles import vpp

ROOT = Path(__file__).parents[2]
SERVICE_FILES = Path(f"/tmp/perftrend-{os.getuid()}")  # noqa: S108 - see Program


class Installation:
    """A double in a folder of its own, which has a short path: that of a socket has at most 107 characters.

    :param environment: what it is told when it starts, which the double documents.
    """

    module: str
    program_name: str

    def __init__(self, folder: Path, **environment: object) -> None:
        self.folder = folder
        self.program = folder / self.program_name
        self.log = folder / "log"
        self._environment = environment
        self.install()

    def install(self, **environment: object) -> None:
        """Write the program, with a changed environment; it must not run."""
        settings = {"PYTHONPATH": f"{ROOT}:{ROOT}/resources", **self._environment, **environment}
        exports = "".join(f"export {name}='{value}'\n" for name, value in settings.items())
        self.program.write_text(f'#!/bin/sh\n{exports}exec {sys.executable} -m {self.module} "$@"\n')
        self.program.chmod(0o755)

    @classmethod
    @contextmanager
    def installed(cls, **environment: object) -> Iterator[Self]:
        """Install the double while the block runs."""
        folder = Path(tempfile.mkdtemp(prefix=f"{cls.program_name}-"))
        try:
            yield cls(folder, **environment)
        finally:
            shutil.rmtree(folder)
            for file in SERVICE_FILES.glob(f"{folder.name}-*.pid"):
                file.unlink()


class VppInstallation(Installation):
    """VPP, with the definitions of its messages."""

    module, program_name = "tests.doubles.vpp", "vpp"

    def __init__(self, folder: Path, **environment: object) -> None:
        self.api = folder / "api"
        vpp.write_definitions(self.api)
        super().__init__(folder, VPP_DOUBLE_API=self.api, VPP_DOUBLE_LOG=folder / "log", **environment)

    def options(self, **options: str) -> dict[str, str]:
        """Return the options of the device, with other ones."""
        return {
            "program": str(self.program),
            "api_dir": str(self.api),
            "runtime_dir": str(self.folder / self.folder.name),
            **options,
        }

    @property
    def requests(self) -> list[str]:
        """What VPP was requested, after its start-up configuration."""
        return self.log.read_text().splitlines()[1:]


class TrexInstallation(Installation):
    """TRex, whose server is started by a person."""

    module, program_name = "tests.doubles.trex", "t-rex-64"

    def __init__(self, folder: Path, **environment: object) -> None:
        super().__init__(folder, TREX_DOUBLE_LOG=folder / "log", **environment)

    @property
    def requests(self) -> list[str]:
        """The methods that the server was requested."""
        return self.log.read_text().splitlines() if self.log.exists() else []
