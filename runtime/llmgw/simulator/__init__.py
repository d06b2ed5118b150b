"""Programs that stand in for expensive parts, so that the rest runs for real without them."""
