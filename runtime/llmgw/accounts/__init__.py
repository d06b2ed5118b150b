"""Who may use the cluster: people, their sessions, their keys, and where those belong."""
