"""The runs in the store, newest first, with links to their archives."""
