"""The embedded traffic generator and the embedded device: two processes and their common code.

They need only Python, numpy and a Linux kernel. Frames are sent unchanged between AF_PACKET sockets on veth
pairs or, if namespaces are not permitted, inside UDP datagrams on the loopback interface. Both kinds of port
have the same interface for the generator and the device.
"""
