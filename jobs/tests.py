"""Run every check: style, types, imports, documentation, unit and integration tests."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent

SIDE_BY_SIDE = ("run-parallel", "--parallel", "2", "--parallel-no-spinner", "-e", "static,docs,unit")
# Packet rates are measured: nothing else may use the cores meanwhile.
ONE_BY_ONE = ("run", "-e", "servers,packets")


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    both = "; ".join(" ".join(arguments) for arguments in (SIDE_BY_SIDE, ONE_BY_ONE))
    described = argparse.ArgumentParser(
        prog="./run tests", description=__doc__, epilog=f"Without arguments all checks run: {both}."
    )
    described.add_argument(
        "tox", nargs=argparse.REMAINDER, help="arguments for tox, such as: run -e unit -- -k settings"
    )
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run tox, and return its exit code: the highest, where it ran twice."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] not in ("-h", "--help"):
        return tox(arguments)
    parser().parse_args(arguments)
    return max(tox(SIDE_BY_SIDE), tox(ONE_BY_ONE))


def tox(arguments: Sequence[str]) -> int:
    """Run tox on this checkout, from wherever it was asked for."""
    return subprocess.run([sys.executable, "-m", "tox", *arguments], cwd=CHECKOUT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
