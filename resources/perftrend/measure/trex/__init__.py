"""Cisco TRex in stateless mode as the traffic generator, on a machine of a lab.

The server is spoken to by JSON-RPC over ZeroMQ, as its own client does (API STL 5.0). That client is not
used: it ships with the server rather than in a package index, and contains a copy of scapy that fails on
Python 3.13. Nothing has to be installed on the generator's machine. This one needs pyzmq, which is an extra.
"""
