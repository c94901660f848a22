"""Create the missing tiles: the values of traces, packed for plots and clusters."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from perftrend.cli import options
from perftrend.console import ProgressLine
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.text import format_count


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = options.Parser("rebuild-tiles", __doc__, examples=["./run rebuild-tiles --store team.sqlite"])
    described.add_argument(
        "--delete-first",
        "--anew",
        action="store_true",
        help="delete all tiles first; --anew is its former name",
    )
    options.add_files(described, report=False, archive=False)
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    with options.report_errors() as outcome:
        given = parser().parse_args(argv)
        settings = Settings.load(given.settings, overrides={"store": given.store})
        make(settings.store, delete_first=given.delete_first)
    return outcome.exit_code


def make(place: str | Path, *, delete_first: bool) -> None:
    """Create the missing tiles of a store, and print the progress of each testbed."""
    with Store.open(place, create=False) as store:
        if delete_first:
            store.tiles.forget()
        with ProgressLine(sys.stdout) as line:
            store.tiles.remake(lambda testbed, whole, columns: line.show(f"{testbed}: {whole} of {columns}"))
        for testbed in store.tiles.testbeds():
            columns = len(store.tiles.axis(testbed).columns)
            print(f"{testbed}: {format_count(columns, 'column')}")


if __name__ == "__main__":
    sys.exit(main())
