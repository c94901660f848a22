"""Ratios of many traces at once: two values of a parameter, two commits, or a patch and what there was.

:mod:`.question` is what the address asks, :mod:`.comparing` finds the values and compares them,
:mod:`.table` lays them out, and :mod:`.posting` tells them in Gerrit.

Source: "Skia Perf: Design", section Comparing bench results across verticals.
"""
