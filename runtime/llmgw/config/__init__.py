"""Settings of every role: what can be set, how it is read, and the page that lists it."""
