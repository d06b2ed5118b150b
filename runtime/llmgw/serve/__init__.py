"""Joiners: here alone concrete classes of different parts meet; workers are watched here."""
