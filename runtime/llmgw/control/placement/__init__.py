"""Where a replica can run; pure, and with a reason for each node that cannot take it."""
