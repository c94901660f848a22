"""Ratios of many traces at once: two values of a parameter, two commits, or a patch set and its baseline.

:mod:`.question` reads the query from the address, :mod:`.comparing` finds the values and compares them,
:mod:`.table` lays out the table, and :mod:`.posting` posts it in Gerrit.

Source: "Skia Perf: Design", section Comparing bench results across verticals.
"""
