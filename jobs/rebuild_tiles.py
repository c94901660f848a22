"""Create the missing tiles: the values of traces, packed for plots and clusters."""

import sys

from perftrend.cli.rebuild_tiles import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
