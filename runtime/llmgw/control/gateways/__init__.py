"""The control plane's end of what gateways on other hosts ask and tell."""
