"""The wire between agents and the control plane: generated messages, their translation, channels, the private CA."""
