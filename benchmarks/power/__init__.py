"""Detection of changes: precision and recall, and runs until a drop is reported."""
