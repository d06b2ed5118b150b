"""The wire between agents and control plane: messages, their translation, channels, the CA."""
