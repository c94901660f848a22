"""Checks of everything that jobs need: this machine, the testbed, files, the store, Gerrit and Jenkins.

A check changes nothing: it creates no store, installs nothing, starts no build and posts nothing.
"""

LONGEST_S = 10.0
"""Time without a response after which a server counts as not available."""
