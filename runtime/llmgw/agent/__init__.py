"""The agent of one node: it finds the hardware, fetches weights, and keeps engines alive."""
