"""``/clusters``: clusters of traces that changed alike, and their triage."""
