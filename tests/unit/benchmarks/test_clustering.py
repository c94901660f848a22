from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import clustering
from perftrend.model import Samples


def no_peers() -> dict[str, clustering.Divide]:
    return {}


def by_change(made: clustering.Window) -> tuple[Samples, clustering.Labels]:
    """Divide as nobody can: each change is a cluster of its own, and what did not change another one."""
    labels = made.groups + 1
    return np.stack([made.traces[labels == label].mean(axis=0) for label in np.unique(labels)]), labels


def test_window_is_the_same_every_time_and_as_large_as_asked() -> None:
    first, second = clustering.window(2000, 15), clustering.window(2000, 15)

    assert (2000, 15) == first.traces.shape
    np.testing.assert_array_equal(first.traces, second.traces)
    assert set(range(-1, clustering.CHANGES)) == set(first.groups.tolist())


def test_changes_are_where_they_are_said_to_be() -> None:
    made = clustering.window(100_000, 40)

    for group, position in enumerate(made.positions):
        course = made.traces[made.groups == group].mean(axis=0)
        assert position == np.argmax(np.abs(np.diff(course))) + 1


def test_best_possible_clusters_find_every_change_and_nothing_else() -> None:
    made = clustering.window(20_000, 128)

    assert {"steps": 1.0, "false": 0, "steps t": 1.0, "false t": 0} == clustering.evaluate_clusters(
        made, *by_change(made)
    )


def test_one_cluster_of_all_finds_one_change_at_most() -> None:
    made = clustering.window(2000, 15)
    verdict = clustering.evaluate_clusters(
        made, made.traces.mean(axis=0, keepdims=True), np.zeros(2000, np.intp)
    )

    assert max(verdict["steps"], verdict["steps t"]) <= 1 / clustering.CHANGES


def test_step_in_traces_that_did_not_change_is_false() -> None:
    made = clustering.window(2000, 15)
    centroids = np.stack([np.zeros(15), np.repeat([0.0, 1.0], [7, 8])])
    verdict = clustering.evaluate_clusters(made, centroids, (made.groups < 0).astype(np.intp))

    assert 1 == verdict["false"] == verdict["false t"]


def test_peer_is_judged_beside_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_in_one(rows: Samples, k: int, seed: int) -> tuple[Samples, clustering.Labels]:
        return rows.mean(axis=0, keepdims=True), np.zeros(len(rows), np.intp)

    monkeypatch.setattr(clustering, "peers", lambda: {"one": all_in_one})
    found = clustering.cell(2000, 15, repetitions=2)

    assert 12 == found["k"]
    assert ["perftrend", "random", "one"] == list(found["medians"])
    assert 1.0 == found["ratios"]["perftrend"]["error"] < found["ratios"]["one"]["error"]


def test_every_cell_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(clustering, "peers", no_peers)
    arguments = ["--sizes", "1000x15", "800x40", "--repetitions", "1"]

    assert 0 == clustering.main(arguments)

    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["traces", "commits", "k"]
    assert [
        ["1000", "15", "11", "perftrend"],
        ["1000", "15", "11", "random"],
        ["800", "40", "11", "perftrend"],
        ["800", "40", "11", "random"],
    ] == [line.split()[:4] for line in lines[:4]]
    assert ["not installed: scikit-learn", "not installed: scipy"] == lines[4:]

    assert 0 == clustering.main([*arguments, "--json"])
    assert 2 == len(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("size", ["30000", "x15", "0x15", "ax15", "100x5"])
def test_wrong_size_is_refused(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        clustering.main(["--sizes", size])

    assert f"{size!r}: give traces and commits, such as 30000x15" in capsys.readouterr().err
