"""Fetch archived outputs, read them, and add them to the store."""

import sys

from perftrend.cli.ingest import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
