"""Searches on real packets, in pairs: perftrend's default and MLRsearch from PyPI.

::

    python -m benchmarks.searching_packets [--json] [--searches 10] [--testbed 1n-veth]
        [--frame 64B] [--acl-rules 20]

Each search is printed as soon as it is done, with ``--json`` as a line of its own; the summary comes
last. Seconds are those of trials, and those on the clock: with trials that were repeated.
MLRsearch cannot end a trial early, so its trials run to their end.

The repeatability of searches is shown for the lower bounds, which are the values of a trend: their standard
deviation and their range, relative to their mean. They are compared with

* the testbed's own noise: before each search one trial is sent at the highest rate, for as long as
  a final trial. Each gives a rate without any search, on the same starts of the device and in the
  same minutes. A search without noise of its own would spread like these, and by its
  resolution: that of an interval of relative width w is a standard deviation of w/√12;
* the other search. All of MLRsearch's bounds are on one grid between the limits, in steps of the
  width: it may find exactly the same rate again on a device that has moved within a step;
* how often a lower bound passes once more: after each search a final trial is sent at each. NDR
  depends on single frames and may vary more than the rate of a flooded device; if bounds pass
  again only half of the time, the device does not repeat, not the search.

Invalid trials of these two kinds outside of searches are ignored. A search
uses such a trial, and the number of them is shown. Generator and device need a core each: nothing
else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.search.methods import MLRSEARCH
from benchmarks.searching_packets.figures import Spread, Summary, summary
from benchmarks.searching_packets.pairs import GOALS, Searched, searches
from perftrend import errors
from perftrend.measure import lock, specification
from perftrend.measure.testbed import Testbed
from perftrend.settings import SearchSettings

_WAIT_S = 3600.0


def main(argv: Sequence[str] | None = None) -> int:
    """Print the configuration, each search, and the summary."""
    options = _parser().parse_args(argv)
    with errors.report_to_stderr() as outcome:
        if options.searches < 1:
            raise errors.UsageError(f"--searches is {options.searches}; give at least 1")
        spec = specification.load(options.testbed)
        device = {"forwarding": "ip4", "acl_rules": str(options.acl_rules)}
        found = []
        with (
            lock.hold(spec.lock, wait_s=_WAIT_S, owner="a benchmark", report=_report),
            Testbed(spec) as testbed,
        ):
            about = {"testbed": spec.name, "simulated": spec.simulated, "frame": options.frame, **device}
            _show(options.json, about, "  ".join(f"{name} {value}" for name, value in about.items()))
            for each in searches(testbed, pairs=options.searches, frame=options.frame, device_options=device):
                found.append(each)
                _show(options.json, asdict(each), _line(each))
        whole = summary(found)
        _show(options.json, asdict(whole), _table(whole))
    return outcome.exit_code


def _parser() -> argparse.ArgumentParser:
    about = __doc__.split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.searching_packets", description=about)
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")
    parser.add_argument("--searches", type=int, default=10, help="of each method (default: %(default)s)")
    parser.add_argument("--testbed", default="1n-veth", help="default: %(default)s")
    parser.add_argument("--frame", default="64B", help="64B, 1518B or IMIX (default: %(default)s)")
    parser.add_argument(
        "--acl-rules", type=int, default=20, help="length of the device's access list (default: %(default)s)"
    )
    return parser


def _report(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _show(as_json: bool, document: dict[str, Any], text: str) -> None:
    print(json.dumps(document) if as_json else text, flush=True)


def _line(each: Searched) -> str:
    bounds = "  ".join(
        f"{goal.upper()} {interval.lower:.0f} to {interval.upper:.0f}"
        f"{' (not valid)' if interval.invalid else ''}{' (fails again)' if again is False else ''}"
        for goal, interval, again in zip(GOALS, each.intervals, each.passed_again, strict=True)
    )
    flooded = "not trusted" if each.flooded_pps is None else f"{each.flooded_pps:.0f} pps"
    return (
        f"pair {each.pair:2}  {each.method:20}  {each.trials:3} trials {each.trials_s:6.1f} s"
        f"  clock {each.wall_s:6.1f} s  repeated {each.repeated}, untrusted {each.untrusted}"
        f"  {bounds}  flooded {flooded}"
    )


def _table(whole: Summary) -> str:
    lines = ["", f"{'medians':20}  trials  trials s  clock s   sums: repeated  untrusted"]
    lines += [
        f"{method:20}  {of.trials:6g}  {of.trials_s:8.1f}  {of.wall_s:7.1f}"
        f"         {of.repeated:8}  {of.untrusted:9}"
        for method, of in whole.methods.items()
    ]
    lines += [
        f"paired {name}, relative to {MLRSEARCH}: "
        f"median {of.median:.2f}, from {of.lowest:.2f} to {of.highest:.2f}"
        for name, of in whole.ratios.items()
    ]
    lines += ["", f"{'lower bounds':20}  goal   median pps  stdev %  range %  count  pass again"]
    lines += [
        f"{method:20}  {goal:5}{_spread(of.lower[goal])}  {_share(of.passed_again[goal])}"
        for method, of in whole.methods.items()
        for goal in GOALS
    ]
    lines += [f"{'the testbed alone':20}  {'':5}{_spread(whole.noise)}"]
    width = SearchSettings().relative_width
    lines += [f"{'resolution alone':20}  {'':17}  {_percent(width / math.sqrt(12.0))}  {_percent(width)}"]
    return "\n".join(lines)


def _spread(of: Spread) -> str:
    median = "" if of.median_pps is None else f"{of.median_pps:.0f}"
    return f"  {median:>10}  {_percent(of.stdev)}  {_percent(of.span)}  {of.rates:5}"


def _share(share: float | None) -> str:
    return " " * 10 if share is None else f"{share:10.0%}"


def _percent(share: float | None) -> str:
    return " " * 7 if share is None else f"{100.0 * share:7.2f}"


if __name__ == "__main__":
    sys.exit(main())
