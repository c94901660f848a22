"""Serve the dashboard: explore, cluster, triage, annotate and compare what was measured."""

import sys

from perftrend.cli.dashboard import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
