"""Nothing that a person typed reaches a shell, a command line, a path or a glob."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftrend.listener.runner import LocalRunner

SPAWNING = ("subprocess.Popen", "os.exec", "os.posix_spawn")
WATCHED = (*SPAWNING, "os.system", "glob.glob", "open", "os.mkdir", "os.rename", "os.listdir")
HOSTILE = (
    "perftest-2n-clx *pwned*AND[a]?",
    "perftest-2n-clx pwned !*pwned",
    "perftest-2n-clx `touch pwned`",
    "perftest-2n-clx $(touch pwned)",
    "perftest-2n-clx ;touch pwned",
    "perftest-2n-clx #../../pwned",
    "perftest-2n-clx -- --duration 1;pwned",
    "perftest-../../pwned mrr",
    "bisecttest-2n-clx --upload-pack=pwned mrr",
    "bisecttest-2n-clx abcdef1 pwned",
)

_seen: list[tuple[str, str]] | None = None


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _seen is not None and event in WATCHED:
        # The environment is told to a child as it is, and nothing of it is read as a command.
        told = arguments[:2] if event in SPAWNING else arguments
        _seen.append((event, repr(told)))


@pytest.fixture
def audit() -> Iterator[list[tuple[str, str]]]:
    """Note what is opened and started; a hook cannot be taken away again, so it falls silent."""
    global _seen  # noqa: PLW0603 - a hook has no other memory
    if not getattr(sys, "_perftrend_hook", False):
        sys.addaudithook(_note)
        sys._perftrend_hook = True  # type: ignore[attr-defined]
    _seen = []
    yield _seen
    _seen = None


def test_nothing_of_a_comment_is_executed_or_opened(
    listener: Any, audit: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3] / "resources"))
    runner = LocalRunner(
        listener.store.requests, archive=tmp_path, settings={},
        command=lambda _: [sys.executable, "-c", "pass"],
    )  # fmt: skip
    for text in HOSTILE:
        listener.gerrit.write(text)

    replace(listener, runner=runner).serve()
    while runner.tend():
        pass

    assert 3 == listener.states().count("ended")
    assert {"subprocess.Popen", "os.mkdir"} <= {event for event, _ in audit}
    assert [] == [each for each in audit if "pwned" in each[1]]
    assert [] == [each for each in audit if each[0] == "os.system"]
