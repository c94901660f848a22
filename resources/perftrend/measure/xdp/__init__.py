"""A faster traffic generator: the kernel itself sends XDP frames, paced by a BPF program.

The program is compiled from ``pacer.bpf.c`` by :mod:`perftrend.measure.xdp.program` and shipped as
instructions, so that measuring needs neither a compiler nor a library.
"""
