"""The embedded traffic generator and the embedded device: two processes and what they share.

Neither needs more than Python, numpy and a Linux kernel. A frame travels as a frame between
AF_PACKET sockets on veth pairs, or, where namespaces are refused, inside a UDP datagram on the
loopback interface; the two kinds of port behave alike to generator and device.
"""
