"""``/``: traces are chosen, drawn, compared over time, and followed down to a run and its commit.

The address has all that was chosen (:mod:`.state`); everything else is made from it and from the store.
"""
