"""Pages for people, over the same services as the admin API; behind the gateway, never in front."""
