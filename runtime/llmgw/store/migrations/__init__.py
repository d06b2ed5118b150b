"""The schema's history: one module in ``versions`` a step, run by ``store.migrating``."""
