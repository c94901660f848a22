"""Read comments in Gerrit, start the jobs that they request, and reply to them."""

import sys

from perftrend.cli.listener import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
