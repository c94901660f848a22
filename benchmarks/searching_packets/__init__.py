"""Searches on real packets: perftrend and MLRsearch in pairs, and the repeatability of each."""
