"""Searches on real packets: perftrend and MLRsearch in pairs, and how well each repeats."""
