"""Compare a change under review with its parent, and post the verdict in Gerrit."""

import sys

from perftrend.cli.perftest import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
