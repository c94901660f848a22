"""Searches for NDR and PDR, compared on simulated devices whose true rates are known."""
