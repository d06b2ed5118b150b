"""The routes of the admin API, one module a noun; each makes one call and shapes the answer."""
