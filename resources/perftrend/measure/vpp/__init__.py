"""FD.io VPP as the device: its start, its configuration by the binary API, and its counters."""
