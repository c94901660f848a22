"""Time and memory of reading a large output.xml, against Robot Framework's own reader.

::

    python -m benchmarks.reading [--size-mb 200] [--repeat 3] [--json]

Each reader runs in a process of its own on the same file, which looks like a night's log at
TRACE level: per test some hundred nested keywords with short and long messages. The times are
those of reading, imports left out, the best of the repetitions; that of the CPU says more where
the machine is shared. The memory is the greatest resident size of the whole process. Ratios are
relative to ``read_output``.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

READERS = {
    "perftrend.archive.read_output": """
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
import json, resource, sys, time
started, worked = time.perf_counter(), time.process_time()
tests = read(sys.argv[1])
elapsed, worked = time.perf_counter() - started, time.process_time() - worked
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"tests": tests, "elapsed_s": elapsed, "cpu_s": worked, "peak_mb": peak / 1024}))
"""

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
MESSAGE = "Maximum Receive Rate trial results in packets per second: [17823451.0, 17799021.0, 17801234.0]"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the readers and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.reading", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size-mb", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "output.xml"
        tests = write_output(path, options.size_mb * 1_000_000)
        report = {
            "size_mb": round(path.stat().st_size / 1_000_000),
            "tests": tests,
            "readers": {name: measured(code, path, options.repeat) for name, code in READERS.items()},
        }
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


def measured(code: str, path: Path, repeat: int) -> dict[str, float]:
    """Run a reader in processes of its own; the least time and the least memory count."""
    runs = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", code + MEASURE, str(path)], stdout=subprocess.PIPE, check=True
            ).stdout
        )
        for _ in range(repeat)
    ]
    return {name: min(run[name] for run in runs) for name in runs[0]}


def table(report: dict[str, Any]) -> str:
    """Lay the report out for a person."""
    ours = report["readers"][next(iter(READERS))]
    columns = {"elapsed_s": "time, s", "cpu_s": "CPU, s", "peak_mb": "memory, MB"}
    lines = [
        f"output.xml of {report['size_mb']} MB with {report['tests']} tests",
        f"{'reader':36}"
        + "".join(f"{title:>12}{'ratio':>7}" for title in columns.values())
        + f"{'tests':>8}",
    ]
    for name, reader in report["readers"].items():
        cells = "".join(f"{reader[key]:12.2f}{reader[key] / ours[key]:7.1f}" for key in columns)
        lines.append(f"{name:36}{cells}{reader['tests']:8}")
    return "\n".join(lines)


def write_output(path: Path, size: int) -> int:
    """Write an output.xml of about so many bytes; return the number of its tests."""
    chance = random.Random(1)  # noqa: S311 - the same file every time
    tests = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<robot generator="Robot 7.1 (Python 3.11.7 on linux)" generated="{MOMENT}" rpa="false" '
            'schemaversion="5">\n<suite id="s1" name="Tests">\n<suite id="s1-s1" name="Ip4">\n'
        )
        while file.tell() < size:
            tests += 1
            file.write(f'<test id="s1-s1-t{tests}" name="64b-1c-ethip4-ip4base-{tests}-mrr" line="3">\n')
            for _ in range(4):
                file.writelines(_keyword(chance, depth=3))
            file.write("<tag>64B</tag>\n<tag>1C</tag>\n<tag>DRV_VFIO_PCI</tag>\n<tag>MRR</tag>\n")
            file.write(f'<status status="PASS" start="{MOMENT}" elapsed="10.5">{MESSAGE}</status>\n</test>\n')
        file.write(f'<meta name="Testbed">2n-clx</meta>\n{STATUS}\n</suite>\n{STATUS}\n</suite>\n')
        file.write("<statistics>\n</statistics>\n<errors>\n</errors>\n</robot>\n")
    return tests


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
