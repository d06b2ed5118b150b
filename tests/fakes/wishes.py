"""Writes down which models somebody asks to be loaded, and loads none."""

from __future__ import annotations


class Wishes:
    """Fits ``ports.LoadRequests``."""

    def __init__(self):
        self.said = []

    def want(self, model):
        self.said.append(f"+{model}")

    def withdraw(self, model):
        self.said.append(f"-{model}")
