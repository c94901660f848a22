"""Run the performance suites on a testbed, archive the results, and judge them."""

import sys

from perftrend.cli.trending import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
