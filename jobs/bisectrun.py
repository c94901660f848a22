"""Judge the commit that is checked out, as the command of git bisect run."""

import sys
import traceback

try:
    from perftrend.cli.bisectrun import main, parser
except ImportError:
    # git would interpret 1, with which Python ends, as the verdict that the commit is bad.
    traceback.print_exc()
    sys.exit(201)

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
