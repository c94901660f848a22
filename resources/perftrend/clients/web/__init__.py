"""Shared parts of the clients of HTTP services: limits of size and time, retries and error messages."""
