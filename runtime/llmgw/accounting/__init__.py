"""What keys may use and what they used: limits on the request's way, and the account of it."""
