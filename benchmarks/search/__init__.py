"""Searches for NDR and PDR, compared on simulated devices whose truth is known."""
