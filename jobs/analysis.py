"""Judge the newest run in the store, or a given one, and write the report."""

import sys

from perftrend.cli.analysis import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
