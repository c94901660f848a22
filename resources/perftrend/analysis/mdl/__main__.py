"""Compile the search for changes and store it: ``python -m perftrend.analysis.mdl``.

Run it at installation, so that no job has to wait for it. If the search is compiled already, or numba cannot
be imported, nothing happens. It can be interrupted, and run several times in parallel: each file is complete
when it appears.
"""

from __future__ import annotations

from perftrend.analysis.mdl import load

if __name__ == "__main__":
    load()
