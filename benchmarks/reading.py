"""Time and memory of reading archived outputs, compared with Robot Framework's own reader.

::

    python -m benchmarks.reading [--size-mb 200] [--builds 20] [--tests 300] [--repeat 3] [--json]

Three kinds are read: one large output.xml, which is similar to a night's log at TRACE level (per test some
hundred nested keywords with short and long messages); the output.json of the same kind that Robot
Framework makes from a smaller one; and many builds, by one process and by one for each core.

Each reader runs in its own process on the same files, one after the other, repeatedly; the
best of the repetitions counts. The times are those of reading, without imports; the CPU time is more
reliable on a shared machine. The memory is the greatest resident size of a whole process. Ratios are
relative to the first reader of each table. The goals: ten times as fast as Robot Framework per core, one
and a half times if that skips the keywords, and under 100 MB per process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

OURS = "perftrend.archive.read_output"
READERS = {
    OURS: """
from perftrend.archive import read_output
def read(path):
    return sum(1 for _ in read_output(path))
""",
    "robot ExecutionResult, no keywords": """
from robot.api import ExecutionResult
def read(path):
    return ExecutionResult(path, include_keywords=False).suite.test_count
""",
    "robot ExecutionResult": """
from robot.api import ExecutionResult
def read(path):
    return ExecutionResult(path).suite.test_count
""",
}

MEASURE = """
import concurrent.futures, json, resource, sys, time
def used():
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
processes, paths = int(sys.argv[1]), sys.argv[2:]
started, worked = time.perf_counter(), used()
if processes > 1:
    with concurrent.futures.ProcessPoolExecutor(processes) as pool:
        tests = sum(pool.map(read, paths))
else:
    tests = sum(map(read, paths))
elapsed, worked = time.perf_counter() - started, used() - worked
peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps({"tests": tests, "elapsed_s": elapsed, "cpu_s": worked, "peak_mb": peak / 1024}))
"""
AS_JSON = "import sys; from robot.api import ExecutionResult; ExecutionResult(sys.argv[1]).save(sys.argv[2])"
JSON_SHARE = 0.2
"""The relative size of the output.json: Robot Framework has to hold all of it to write it."""
DIFFERENT_BUILDS = 4
"""The number of builds that are written; the others are these again, each read in full."""

LINES = [
    escape(line)
    for line in (
        "sudo -S vppctl show interface -> rc=0, <stdout>: 10ge2p1x710 up 9000/0/0/0",
        "  TX packets 123456789  bytes 7407407340 dropped 0 & errors 0",
        "thread 1 vpp_wk_0 (lcore 2) vector rates in 1.4881e7, out 1.4881e7, drop 0.0000e0",
        "     ip4-lookup                  active     58112345    14876543210     0     2.31e1    256.00",
        "Arguments: [ 'node' | {'host': '192.0.2.7', 'port': 22, 'type': 'DUT'} ]",
        "Return: (0, '', '')",
    )
]
MOMENT = "2024-01-01T22:30:00.123456"
STATUS = f'<status status="PASS" start="{MOMENT}" elapsed="0.012345"/>'
VERSION = "VPP version: 24.02-rc0~123-gabcdef012~b45"
MESSAGE = "Maximum Receive Rate trial results in packets per second: [17823451.0, 17799021.0, 17801234.0]"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the readers and print the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.reading", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size-mb", type=float, default=200, help="of the large output.xml")
    parser.add_argument("--builds", type=int, default=20)
    parser.add_argument("--tests", type=int, default=300, help="of a build")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the tables")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        reports = [
            large(Path(folder), options.size_mb * 1e6, options.repeat),
            as_json(Path(folder), options.size_mb * 1e6 * JSON_SHARE, options.repeat),
            builds(Path(folder), options.builds, options.tests, options.repeat),
        ]
    print(json.dumps(reports, indent=2) if options.json else "\n\n".join(map(table, reports)))
    return 0


def large(folder: Path, size: float, repeat: int) -> dict[str, Any]:
    """Measure the reading of one large output.xml."""
    path = folder / "output.xml"
    write_output(path, size=size)
    return report("output.xml", [path], {name: (code, 1) for name, code in READERS.items()}, repeat)


def as_json(folder: Path, size: float, repeat: int) -> dict[str, Any]:
    """Measure the reading of the output.json that Robot Framework makes from an output.xml."""
    source, path = folder / "smaller.xml", folder / "output.json"
    write_output(source, size=size)
    subprocess.run([sys.executable, "-c", AS_JSON, str(source), str(path)], check=True)
    return report("output.json", [path], {name: (code, 1) for name, code in READERS.items()}, repeat)


def builds(folder: Path, number: int, tests: int, repeat: int) -> dict[str, Any]:
    """Measure the reading of many builds, by one process and by one for each core."""
    paths = [folder / f"build-{place}.xml" for place in range(min(number, DIFFERENT_BUILDS))]
    for place, path in enumerate(paths):
        write_output(path, tests=tests, seed=place)
    cores = os.cpu_count() or 1
    readers = {OURS: (READERS[OURS], 1), f"the same, {cores} processes": (READERS[OURS], cores)}
    readers |= {name: (code, 1) for name, code in READERS.items() if name != OURS}
    return report(f"{number} builds", [paths[place % len(paths)] for place in range(number)], readers, repeat)


def report(
    title: str, paths: Sequence[Path], readers: Mapping[str, tuple[str, int]], repeat: int
) -> dict[str, Any]:
    """Run each reader in turn in its own process; its least time and its least memory count."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in readers}
    for _ in range(repeat):
        for name, (code, processes) in readers.items():
            command = [sys.executable, "-c", code + MEASURE, str(processes), *map(str, paths)]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            runs[name].append(json.loads(done.stdout))
    return {
        "title": title,
        "size_mb": sum(path.stat().st_size for path in paths) / 1e6,
        "readers": {name: {key: min(run[key] for run in of) for key in of[0]} for name, of in runs.items()},
    }


def table(report: dict[str, Any]) -> str:
    """Format a report as a table."""
    ours = next(iter(report["readers"].values()))
    columns = {"elapsed_s": "time, s", "cpu_s": "CPU, s", "peak_mb": "memory, MB"}
    lines = [
        f"{report['title']}, {report['size_mb']:.0f} MB",
        f"{'reader':36}"
        + "".join(f"{title:>12}{'ratio':>7}" for title in columns.values())
        + f"{'MB/s':>8}{'tests':>8}",
    ]
    for name, reader in report["readers"].items():
        cells = "".join(f"{reader[key]:12.2f}{reader[key] / ours[key]:7.1f}" for key in columns)
        lines.append(f"{name:36}{cells}{report['size_mb'] / reader['elapsed_s']:8.0f}{reader['tests']:8}")
    return "\n".join(lines)


def write_output(path: Path, *, size: float = 0, tests: int = 1, seed: int = 1) -> None:
    """Write an output.xml of about ``size`` bytes, and of at least ``tests`` tests."""
    chance = random.Random(seed)  # noqa: S311 - the same file every time
    written = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<robot generator="Robot 7.1 (Python 3.11.7 on linux)" generated="{MOMENT}" rpa="false" '
            'schemaversion="5">\n<suite id="s1" name="Tests">\n<suite id="s1-s1" name="Ip4">\n'
        )
        file.write(f'<kw name="Set Up" type="SETUP">\n<msg time="{MOMENT}" level="INFO">{VERSION}</msg>\n')
        file.write(f"{STATUS}\n</kw>\n")
        while written < tests or file.tell() < size:
            written += 1
            file.write(f'<test id="s1-s1-t{written}" name="64b-1c-ethip4-ip4base-{written}-mrr" line="3">\n')
            for _ in range(4):
                file.writelines(_keyword(chance, depth=3))
            file.write("<tag>64B</tag>\n<tag>1C</tag>\n<tag>DRV_VFIO_PCI</tag>\n<tag>MRR</tag>\n")
            file.write(f'<status status="PASS" start="{MOMENT}" elapsed="10.5">{MESSAGE}</status>\n</test>\n')
        file.write(f'<meta name="Testbed">2n-clx</meta>\n{STATUS}\n</suite>\n{STATUS}\n</suite>\n')
        file.write("<statistics>\n</statistics>\n<errors>\n</errors>\n</robot>\n")


def _keyword(chance: random.Random, depth: int) -> Iterator[str]:
    yield '<kw name="Run Command On Node" owner="ssh">\n'
    for _ in range(chance.randint(1, 4)):
        lines = "\n".join(chance.choices(LINES, k=chance.choice([1, 1, 1, 2, 3, 8, 30])))
        yield f'<msg time="{MOMENT}" level="{chance.choice(["INFO", "DEBUG", "TRACE"])}">{lines}</msg>\n'
    for _ in range(chance.randint(1, 4) if depth else 0):
        yield from _keyword(chance, depth - 1)
    yield "<arg>${node}</arg>\n<arg>show runtime</arg>\n<doc>Runs a command on the node.</doc>\n"
    yield f"{STATUS}\n</kw>\n"


if __name__ == "__main__":
    sys.exit(main())
