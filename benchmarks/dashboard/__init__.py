"""How fast the dashboard answers where there are many traces."""
