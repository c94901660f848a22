"""Time and memory of ``./run ingest`` over archived builds, from a log server on this machine.

::

    python -m benchmarks.fetching [--builds 500] [--tests 300] [--json]

The builds are generated: outputs of Robot Framework 7, gzipped, each with the same number of MRR tests and
some 7 kB of log per test. Python's own ``http.server`` serves them with index pages. The job runs as started
by a user, with a limit on requests that has no effect: first everything is fetched, read and stored; then
the store is made again from the cache; then nothing is new. MB/s are of the unpacked outputs. The
memory is the greatest resident size of any one process of the job.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.reading import LINES, MOMENT, STATUS

JOB = "nightly-2n-clx"
RATE = b"17823451"
WATCH_EVERY_S = 0.05
_UNBOUNDED = "100000"

TEST = """<test id="s1-t{number}" name="64b-1c-ethip4-ip4base-{number}-mrr" line="3">
{keywords}<tag>64B</tag>
<tag>1C</tag>
<tag>MRR</tag>
<status status="PASS" start="{moment}" elapsed="10.5">\
Maximum Receive Rate trial results in packets per second: [{rate}.0, {rate}.5]</status>
</test>
"""
KEYWORD = """<kw name="Run Command On Node" owner="ssh"><msg time="{moment}" level="DEBUG">{lines}</msg>
{status}</kw>
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the three cases and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.fetching", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--builds", type=int, default=500)
    parser.add_argument("--tests", type=int, default=300)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as place:
        report = measure(Path(place), options.builds, options.tests)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


def measure(folder: Path, builds: int, tests: int) -> dict[str, Any]:
    """Make the builds, and ingest them in three cases."""
    one = output(tests)
    packed_bytes = sum(write(folder / "served", build, one) for build in range(1, builds + 1))
    unpacked_mb = len(one) * builds / 1e6
    work = folder / "work"
    work.mkdir()
    rows: dict[str, dict[str, float]] = {}
    with serve(folder / "served") as url:
        for name in ("fetch, read, store", "read, store", "nothing is new"):
            if name == "read, store":
                for file in work.glob("perftrend.sqlite*"):
                    file.unlink()
            elapsed_s, peak_mb = ingest(url, work)
            rows[name] = {
                "elapsed_s": elapsed_s,
                "mb_per_s": 0.0 if name == "nothing is new" else unpacked_mb / elapsed_s,
                "peak_mb": peak_mb,
            }
    return {
        "builds": builds,
        "tests": tests,
        "packed_mb": packed_bytes / 1e6,
        "unpacked_mb": unpacked_mb,
        "ways": rows,
    }


def ingest(url: str, folder: Path) -> tuple[float, float]:
    """Run the job; return its time in seconds, and the peak memory of its largest process in MB."""
    checkout = Path(__file__).resolve().parent.parent
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERFTREND_")}
    environment |= {
        "PERFTREND_FETCH_REQUESTS_PER_SECOND": _UNBOUNDED,
        "PYTHONPATH": f"{checkout}{os.pathsep}{checkout / 'resources'}",
    }
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "perftrend.cli.ingest", url],
        cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as job:  # fmt: skip
        peak_kb = 0
        while job.poll() is None:
            peak_kb = max(peak_kb, *_peaks_kb(job.pid), 0)
            time.sleep(WATCH_EVERY_S)
        elapsed_s = time.perf_counter() - started
        stdout = job.communicate()[0]
    if job.returncode:
        raise SystemExit(f"the job ended with exit code {job.returncode}: {stdout}")
    return elapsed_s, peak_kb / 1024


def _peaks_kb(session: int) -> Iterator[int]:
    """Yield the peak memory of each process of a session."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int((process / "stat").read_text().rpartition(")")[2].split()[3]) != session:
                continue
            found = re.search(r"VmHWM:\s*(\d+)", (process / "status").read_text())
        except (OSError, ProcessLookupError):
            continue  # it has ended meanwhile
        if found:
            yield int(found[1])


def output(tests: int) -> bytes:
    """Return an output with a number of tests; the same every time."""
    chance = random.Random(1)  # noqa: S311 - no secret
    written = "".join(
        TEST.format(number=number, rate=RATE.decode(), moment=MOMENT, keywords="".join(_keywords(chance)))
        for number in range(tests)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<robot generator="Robot 7.1 (Python 3.11.7 on linux)" generated="{MOMENT}" schemaversion="5">\n'
        f'<suite id="s1" name="Tests">\n{written}<meta name="Testbed">2n-clx</meta>\n'
        f"{STATUS}\n</suite>\n</robot>\n"
    ).encode()


def _keywords(chance: random.Random) -> Iterator[str]:
    for _ in range(20):
        yield KEYWORD.format(moment=MOMENT, lines="\n".join(chance.choices(LINES, k=3)), status=STATUS)


def write(folder: Path, build: int, one: bytes) -> int:
    """Write a build's output with rates of its own; return its packed size in bytes."""
    path = folder / "ci" / JOB / str(build) / "archives" / "output.xml.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(one.replace(RATE, b"%d" % (int(RATE) + build)), compresslevel=1))
    return path.stat().st_size


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder with index pages from a process of its own; yield the URL."""
    command = [
        sys.executable,
        "-u",
        "-m",
        "http.server",
        "--bind",
        "127.0.0.1",
        "--directory",
        str(folder),
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            first_line = server.stdout.readline() if server.stdout else ""
            found = re.search(r"port (\d+)", first_line)
            if not found:
                raise SystemExit(f"the log server did not start: {first_line}")
            yield f"http://127.0.0.1:{found[1]}/"
        finally:
            server.kill()


def table(report: dict[str, Any]) -> str:
    """Format the report as a table."""
    lines = [
        f"{report['builds']} builds of {report['tests']} tests: {report['packed_mb']:.0f} MB packed, "
        f"{report['unpacked_mb']:.0f} MB unpacked",
        f"{'':20}{'time, s':>10}{'MB/s':>10}{'memory, MB':>12}",
    ]
    for name, row in report["ways"].items():
        speed = f"{row['mb_per_s']:.0f}" if row["mb_per_s"] else ""
        lines.append(f"{name:20}{row['elapsed_s']:10.1f}{speed:>10}{row['peak_mb']:12.0f}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
