"""Generated from ``proto/llmgw/rpc/v1``; ``proto/generate.py`` writes it anew, a layout test compares."""
