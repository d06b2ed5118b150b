"""Engine processes: start, readiness, output, stop, and finding them again after a restart."""
