"""What the clients of HTTP services share: bounds in size and time, and what to say when it fails."""
