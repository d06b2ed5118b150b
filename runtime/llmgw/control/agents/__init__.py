"""The control plane's end of every agent's stream."""
