"""Check, back up, restore, upgrade, move, export or prune the store, or correct its results and names."""

import sys

from perftrend.cli.store import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
