"""Finds how many requests at once an OpenAI endpoint carries before its promises break."""
