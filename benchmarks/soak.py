"""How often the interval of a soak test contains the critical load, on simulated devices.

``python -m benchmarks.soak [--devices N] [--seconds S] [--json]``. Each line is one kind of device,
with critical rates over two and a half decades. The truth is the rate at which the average over the
device's jitter, integrated numerically, loses the target.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from perftrend.measure.search import SoakResult, soak
from perftrend.measure.simulated_loss import KNEES
from perftrend.measure.simulator import DeviceModel

TARGET = 1e-7
KINDS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "hard": {},
        "soft, Poisson": {"knee": "soft", "poisson": True},
        "gentle, Poisson": {"knee": "gentle", "poisson": True},
        "hard, jitter 0.3 %": {"jitter": 0.003, "poisson": True},
        "soft, jitter 0.3 %": {"knee": "soft", "jitter": 0.003, "poisson": True},
        "gentle, jitter 0.3 %": {"knee": "gentle", "jitter": 0.003, "poisson": True},
    }
)
# The rate of a target is calculated with this relative precision; results are not judged more finely.
_ROUNDING = 2e-7


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table, or the same as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--devices", type=int, default=100, help="devices of each kind")
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="of trials in a soak; 1800 is its default"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)
    rows = [measure(kind, options.devices, options.seconds) for kind in KINDS]
    if options.json:
        print(json.dumps(rows, indent=2))
        return 0
    print(f"{'device':22} {'held':>7} {'error':>9} {'width':>9} {'not valid':>10}")
    for row in rows:
        print(
            f"{row['device']:22} {row['held']:7.2f} {row['median_error']:9.1e} "
            f"{row['median_width']:9.1e} {row['not_valid']:10d}"
        )
    return 0


def measure(kind: str, devices: int, seconds: float) -> dict[str, Any]:
    """Run soak tests on devices of a kind; errors and widths are relative to the true critical load."""
    held, errors, widths, doubtful = 0, [], [], 0
    for seed in range(devices):
        result, true_pps = _soak(kind, seed, seconds)
        held += result.lower <= true_pps * (1.0 + _ROUNDING) and true_pps <= result.upper * (1.0 + _ROUNDING)
        errors.append(abs(result.critical_pps / true_pps - 1.0))
        widths.append((result.upper - result.lower) / true_pps)
        doubtful += bool(result.invalid)
    return {
        "device": kind,
        "held": held / devices,
        "median_error": float(np.median(errors)),
        "median_width": float(np.median(widths)),
        "not_valid": doubtful,
    }


def _soak(kind: str, seed: int, seconds: float) -> tuple[SoakResult, float]:
    random = np.random.default_rng(seed)
    critical_pps = 10.0 ** random.uniform(4.7, 7.3)
    maximum_pps = critical_pps * random.uniform(1.05, 3.0)
    device = DeviceModel(critical_pps, seed=seed, **KINDS[kind])
    result = soak(
        device,
        minimum_pps=20e3,
        maximum_pps=maximum_pps,
        total_duration_s=seconds,
        target_loss_ratio=TARGET,
    )
    return result, critical_load(critical_pps, **KINDS[kind])


def critical_load(critical_pps: float, *, knee: str = "hard", jitter: float = 0.0, **_: object) -> float:
    """Return the rate that loses the target on average over the jitter, by bisection."""
    deviates = np.linspace(-8.0, 8.0, 2001) if jitter else np.zeros(1)
    weights = np.exp(-(deviates**2) / 2.0)
    loss = np.vectorize(KNEES[knee], otypes=[np.float64])
    low, high = 0.5 * critical_pps, 1.2 * critical_pps
    while high / low > 1.0 + _ROUNDING / 10.0:
        middle = math.sqrt(low * high)
        ratios = loss(middle / (critical_pps * np.exp(jitter * deviates)))
        if np.average(ratios, weights=weights) > TARGET:
            high = middle
        else:
            low = middle
    return low


if __name__ == "__main__":
    sys.exit(main())
