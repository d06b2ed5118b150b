"""The command line: what people type, what they are shown, and the exit code that programs read."""
