"""Check this machine, the testbed, the store, Gerrit and Jenkins, and show how to fix what is wrong."""

import sys

from perftrend.cli.doctor import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
