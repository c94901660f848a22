"""Check this machine, the testbed, the store, Gerrit and Jenkins, and show how to fix what is wrong."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from perftrend.cli import options
from perftrend.console import print_text, print_verdict
from perftrend.doctor import servers, storage, testbeds
from perftrend.doctor.check_results import CheckResult, as_lines, as_table, exit_code, summary
from perftrend.files import write_whole
from perftrend.settings import Settings

_WIDTH = 110
"""Of the output if it is not a terminal."""


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = options.Parser(
        "doctor",
        __doc__,
        notes="Nothing is changed, started or posted. The exit code is 0 if there is no fault.",
        examples=[
            "./run doctor",
            "./run doctor --settings team.yaml --testbed 2n-clx",
            "./run doctor --jenkins https://jenkins.example.org --gerrit https://review.example.org",
        ],
    )
    add = described.add_argument
    add("--jenkins", metavar="URL", help="the Jenkins to check (default: that of the settings)")
    add("--gerrit", metavar="URL", help="the Gerrit to check (default: that of the settings)")
    add("--testbed", metavar="NAME", help=f"the testbed {options.show_default('testbed')}")
    add("--json", metavar="FILE", type=Path, help="also write the results as JSON; - for standard output")
    options.add_files(described)
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    with options.report_errors() as outcome:
        outcome.exit_code = diagnose(parser().parse_args(argv))
    return outcome.exit_code


def diagnose(given: argparse.Namespace) -> int:
    """Run all checks, print what they found, and return the exit code."""
    overrides = {
        "jenkins.url": given.jenkins,
        "gerrit.url": given.gerrit,
        "testbed": given.testbed,
        "store": given.store,
        "archive": given.archive,
        "report": given.report,
    }
    found = list(check_all(Settings.load(given.settings, overrides=overrides), given.settings))
    if given.json:
        _write_json(given.json, found)
    if given.json != Path("-"):
        width = shutil.get_terminal_size((_WIDTH, 0)).columns if sys.stdout.isatty() else _WIDTH
        print_text("\n".join(as_lines(found, width)))
        print_verdict(summary(found))
    return exit_code(found)


def check_all(settings: Settings, file: str | None) -> Iterator[CheckResult]:
    """Run the checks; the machine is observed first, before anything else uses it.

    :param file: the settings file of the command line.
    """
    yield from testbeds.check_machine(tolerates_load=testbeds.tolerates_load(settings))
    yield from testbeds.check_testbed(settings)
    yield from storage.check_files(settings, file, os.environ)
    yield from storage.check_store(settings)
    yield from servers.check_gerrit(settings)
    yield from servers.check_jenkins(settings)


def _write_json(file: Path, found: Sequence[CheckResult]) -> None:
    document = {"checks": [as_table(each) for each in found], "exit_code": exit_code(found)}
    content = json.dumps(document, indent=1)
    if file == Path("-"):
        print_text(content)
    else:
        write_whole(file, f"{content}\n")


if __name__ == "__main__":
    sys.exit(main())
