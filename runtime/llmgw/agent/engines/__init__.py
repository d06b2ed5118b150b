"""Drivers: how each engine is checked, started and stopped; they build commands and run nothing."""
