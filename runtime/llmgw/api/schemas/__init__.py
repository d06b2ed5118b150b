"""The shapes of the admin API's answers, one module a noun."""
