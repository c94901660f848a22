"""Clients of outside services: the only importers of their libraries."""
