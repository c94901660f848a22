"""Response time of each page, as HTML and as JSON."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import numpy as np
import requests

from benchmarks.tiles import TESTBED

_SOME = quote("frame=64B&metric=mrr&test=~-ip4-1[0-9]{1,2}$")
_MANY = quote("frame=64B")
_ONE = quote("test=64B-1c-ip4-7&metric=ndr&driver=avf")

PAGES: Mapping[str, str] = {
    "Overview": "/",
    "Explore": f"/explore?testbed={TESTBED}",
    "Explore, some 100 traces": f"/explore?testbed={TESTBED}&q={_SOME}",
    "Explore, a third of all": f"/explore?testbed={TESTBED}&q={_MANY}",
    "Explore, these normalised": f"/explore?testbed={TESTBED}&q={_MANY}&show=norm",
    "Explore, average of these": f"/explore?testbed={TESTBED}&q={_MANY}&show=ave&by=cores",
    "Explore, one trace, coarse": f"/explore?testbed={TESTBED}&scale=3&q={_ONE}",
    "Clusters": "/clusters",
    "Triage": "/triage",
    "Triage, of all MRR traces": f"/triage?query={quote('metric=mrr')}",
    "Triage, an item": "/triage/1",
    "Triage, a bisection of it": "/jobs/new?item=1",
    "Alerts": "/alerts",
    "Compare, empty": "/compare",
    "Compare two drivers": f"/compare?q={quote('metric=mrr')}&vertical=driver&left=avf&right=rdma",
    "Compare two days": f"/compare?by=commits&q={quote('metric=mrr')}&left=2020-02-01&right=2020-04-01",
    "Search, a test": "/search?q=ip4-7",
    "Search, all tests": "/search?q=64b+mrr&group=tests",
    "Annotations": "/annotations",
    "Views": "/views",
    "Runs": "/runs",
    "Queue": "/queue",
    "Calibration": "/calibration",
    "Ingestions": "/ingest",
    "Activity": "/activity",
    "Help": "/help",
    "API": "/api",
    "Metrics": "/metrics",
}
"""The paths to request, by name."""

FORMS = {"HTML": "text/html", "JSON": "application/json"}


def measure(url: str, requests_per_page: int) -> Iterator[dict[str, Any]]:
    """Yield the time of each page: the first time, and the median and 95 % of the others, in seconds."""
    with requests.Session() as session:
        for name, path in PAGES.items():
            for form, accepted in FORMS.items():
                answers = [_request(session, url + path, accepted) for _ in range(1 + requests_per_page)]
                first, *others = (seconds for seconds, _ in answers)
                last = answers[-1][1]
                yield {
                    "name": name,
                    "form": form,
                    "status": last.status_code,
                    "kilobytes": len(last.content) / 1000,
                    "first_s": first,
                    "median_s": float(np.median(others)),
                    "p95_s": float(np.percentile(others, 95)),
                }


def _request(session: requests.Session, url: str, accepted: str) -> tuple[float, requests.Response]:
    begin = time.perf_counter()
    answer = session.get(url, headers={"Accept": accepted}, timeout=120)
    return time.perf_counter() - begin, answer
