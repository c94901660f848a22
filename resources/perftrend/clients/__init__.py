"""Clients of external services: the only modules that import the libraries for them."""
