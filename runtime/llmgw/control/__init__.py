"""The control plane: what should run, where it runs, and how it is kept running."""
