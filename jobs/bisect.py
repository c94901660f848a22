"""Find the commit that changed the performance, and report it in Gerrit."""

import sys

from perftrend.cli.bisect import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
