"""Annotations of commits: list, add, edit and delete them."""
