"""Check, back up, restore, upgrade, move or prune the store, mark results as invalid, or rename traces."""

import sys

from perftrend.cli.store import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
