"""Which of several control planes places and stops replicas."""
