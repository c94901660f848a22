"""Git: commits by their hash, the history between two of them, and a checkout of one.

The only package that runs git. See Projects in the documentation for the options it is called with.
"""

from __future__ import annotations

from perftrend.clients.git.addresses import Address, without_password
from perftrend.clients.git.checkout import Checkout, find_checkout
from perftrend.clients.git.repository import Commit, Repository

__all__ = ["Address", "Checkout", "Commit", "Repository", "find_checkout", "without_password"]
