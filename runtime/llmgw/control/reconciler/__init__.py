"""Keeps what runs equal to what should run: a pure decision and thin movers around it."""
