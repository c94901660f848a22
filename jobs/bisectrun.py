"""Judge the commit that is checked out, as the command of git bisect run."""

import sys

from perftrend.cli.bisectrun import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
