"""How surely and how fast bisections find what changed the performance, on simulated histories."""
