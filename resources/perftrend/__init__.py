"""perftrend: nightly performance measurement of a data plane, change detection, and notification."""

import sys
from pathlib import Path

__version__ = "0.1.0"

COMMAND = "./run" if Path(__file__).resolve().parents[2].joinpath("run").is_file() else "perftrend"
"""What starts a job, for messages and help texts: the script of a checkout, or else the installed program."""


def command_to_install(extra: str, package: str) -> str:
    """Return the command that installs an optional part.

    :param extra: its name in a checkout.
    :param package: what it consists of; perftrend and its optional parts are not on PyPI.
    """
    by_pip = f"{sys.executable} -m pip install '{package}'"
    return f"{COMMAND} --with {extra}" if COMMAND == "./run" else by_pip
