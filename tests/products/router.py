"""The embedded router as a product with a history of its own."""

from __future__ import annotations

from pathlib import Path

from tests.products.histories import History

_MAIN = '''"""The embedded router, with a constant that makes it slower."""

import sys

from perftrend.measure.embedded import router

EXTRA_RULES = {rules}
"""Rules that every frame is compared with, beside those that the test asks for."""


def with_extra_rules(arguments):
    """Return the arguments of the router with the extra rules added."""
    arguments = list(arguments)
    if "--acl-rules" not in arguments:
        return [*arguments, "--acl-rules", str(EXTRA_RULES)]
    at = arguments.index("--acl-rules") + 1
    return [*arguments[:at], str(int(arguments[at]) + EXTRA_RULES), *arguments[at + 1 :]]


if __name__ == "__main__":
    sys.exit(router.main(with_extra_rules(sys.argv[1:])))
'''
_FILE = "router/__main__.py"


class RouterProduct:
    """A repository of the embedded router; the profile ``embedded-router`` builds it."""

    def __init__(self, folder: Path) -> None:
        self.history = History(folder)
        self.folder = folder

    def commit(self, extra_rules: int = 0, subject: str = "") -> str:
        """Commit the router with so many extra rules; the more, the slower."""
        text = _MAIN.format(rules=extra_rules)
        return self.history.commit(subject or f"Compare with {extra_rules} more rules", {_FILE: text})

    def change_nothing(self, subject: str) -> str:
        """Commit something that does not change how fast it is."""
        return self.history.commit(subject, {"NOTES": f"{subject}\n"})

    def break_build(self) -> str:
        """Commit what does not build."""
        return self.history.commit("Break the build", {_FILE: "def broken(:\n"})

    def crash_at_start(self) -> str:
        """Commit what builds, and ends as soon as it is started."""
        text = 'import sys\n\nsys.exit("the table of routes is corrupt")\n'
        return self.history.commit("Crash at start", {_FILE: text})
