"""Response times of the dashboard with many traces."""
