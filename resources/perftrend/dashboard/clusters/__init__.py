"""``/clusters``: what changed alike, and what people say of it."""
