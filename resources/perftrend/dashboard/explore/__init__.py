"""Explore, ``/``: select, plot and compare traces over time, down to a run and its commit.

The address contains the whole selection (:mod:`.state`); everything else is derived from it and the store.
"""
