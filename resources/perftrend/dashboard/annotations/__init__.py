"""What people say of commits, to be read, written and corrected."""
