"""llmgw: language models on machines that you own, behind one OpenAI-compatible endpoint."""

__version__ = "0.1.0"
