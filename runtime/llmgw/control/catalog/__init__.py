"""What should run: the current catalog."""
