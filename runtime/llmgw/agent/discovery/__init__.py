"""What this machine is: read from the system, never asked of the network."""
