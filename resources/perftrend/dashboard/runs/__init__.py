"""The runs that the store has, newest first, with the way to their archives."""
