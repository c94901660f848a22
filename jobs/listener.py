"""Start the jobs that comments in Gerrit and the dashboard request, and reply to the comments."""

import sys

from perftrend.cli.listener import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
