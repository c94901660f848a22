"""Compiles the search for changes and stores it: ``python -m perftrend.analysis.mdl``.

For an installation, so that no job has to wait for it. If it is compiled already, or numba cannot be
imported, nothing happens. It can be interrupted, and run several times at once: each file is complete when
it appears.
"""

from __future__ import annotations

from perftrend.analysis.mdl import load

if __name__ == "__main__":
    load()
