"""Ratios of many traces at once: two values of a parameter, two commits, or a patch set and its baseline.

:mod:`.query` reads the query from the address, :mod:`.comparison` finds the values and compares them,
:mod:`.table` lays out the table, and :mod:`.gerrit_post` posts it in Gerrit.

Source: "Skia Perf: Design", section Comparing bench results across verticals.
"""
