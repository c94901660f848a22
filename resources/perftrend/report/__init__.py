"""Reports of the verdicts of a run, as static HTML, as JSON and as a table on a terminal.

All three show the same rows in the same order: the worst first, and among equals the largest
long-term change first.

Source: "Continuous Performance Trending and Analysis" (graphs and markers) and "Trend Analysis"
(compliance metrics).
"""

from perftrend.report.document import as_json
from perftrend.report.page import write
from perftrend.report.texts import sentence, terminal_table

__all__ = ["as_json", "sentence", "terminal_table", "write"]
