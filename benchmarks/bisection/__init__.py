"""Reliability and speed of bisections that find performance changes, on simulated histories."""
