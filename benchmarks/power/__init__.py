"""How well changes are found: precision and recall, and runs until a drop is reported."""
