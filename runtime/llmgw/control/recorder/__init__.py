"""What each pass saw and decided, kept in a bounded journal, and decided once more from it."""
