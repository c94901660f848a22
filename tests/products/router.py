"""The embedded router as a product with a history of its own."""

from __future__ import annotations

from pathlib import Path

from perftrend.builds.example import FILE, PROGRAM
from tests.products.histories import History

_FILE, _MAIN = FILE, PROGRAM


class RouterProduct:
    """A repository of the embedded router; the profile ``embedded-router`` builds it."""

    def __init__(self, folder: Path) -> None:
        self.history = History(folder)
        self.folder = folder

    def commit(self, extra_rules: int = 0, subject: str = "") -> str:
        """Commit the router with so many extra rules; the more, the slower."""
        text = PROGRAM.format(rules=extra_rules)
        return self.history.commit(subject or f"Compare with {extra_rules} more rules", {FILE: text})

    def change_nothing(self, subject: str) -> str:
        """Commit something that does not change how fast it is."""
        return self.history.commit(subject, {"NOTES": f"{subject}\n"})

    def break_build(self) -> str:
        """Commit what does not build."""
        return self.history.commit("Break the build", {FILE: "def broken(:\n"})

    def crash_at_start(self) -> str:
        """Commit what builds, and ends as soon as it is started."""
        text = 'import sys\n\nsys.exit("the table of routes is corrupt")\n'
        return self.history.commit("Crash at start", {FILE: text})
