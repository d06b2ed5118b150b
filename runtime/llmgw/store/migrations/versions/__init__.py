"""Steps of the schema, each with its way up and down.

A release only expands what the one before it reads and writes; what nobody uses any more is
taken away a release later. ``USABLE_FROM`` of a step is the oldest step whose code can work on
the schema that it leaves, so that the other server of a pair may be the older one for a while.
"""
