"""Clusters for a clustering to find, and requests about them."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext
from perftrend.dashboard.clusters.clustering import ClusteringResult, rule
from perftrend.dashboard.clusters.models import ClusterOptions, ClusterSummary
from perftrend.store.clusters import StoredCluster
from tests.unit.dashboard.conftest import FIRST, token_of

JSON = {"Accept": "application/json"}
TESTBED = "2n-clx"
COMMITS = ("c1", "c2", "c3")


@pytest.fixture
def editor(editor: TestClient) -> TestClient:
    """Give a client of Eva whose requests all carry what her forms do."""
    editor.headers["X-CSRF-Token"] = token_of(editor)
    return editor


def stored(
    *members: int | str, regression: float = 200.0, at: str = "c2", testbed: str = TESTBED
) -> StoredCluster:
    """Make a cluster of traces that only have numbers."""
    summary = ClusterSummary(
        members=[(str(each), 0.5) for each in members[:20]], size=len(members), centroid=[1.0, -1.0, -1.0],
        position=1, before="c1", step=-2.0, lse=0.0, corrected=None, parameters=[], total=9, first=FIRST,
        last=FIRST, clustered=FIRST,
    )  # fmt: skip
    return StoredCluster(
        testbed,
        FIRST,
        at,
        regression,
        summary.model_dump(mode="json"),
        [(str(each), 0.5) for each in members],
    )


def clustered(site: AppContext, *clusters: StoredCluster, testbed: str = TESTBED) -> None:
    """Let a clustering find some clusters."""
    site.store.clusterings.request(testbed, ClusterOptions().model_dump(), "")
    task = site.store.clusterings.claim(FIRST)
    assert task is not None
    site.store.clusters.merge(
        task, rule(ClusteringResult(clusters, COMMITS, {"interesting": len(clusters)})), {}
    )


def listed(client: TestClient, **query: Any) -> list[dict[str, Any]]:
    return client.get("/clusters", params=query, headers=JSON).json()["clusters"]
