"""Small mechanisms without a domain: clocks, tasks, backoff, bounded queues, ids, logs."""
