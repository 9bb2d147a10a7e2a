"""The interfaces of other queues, as thin words over pgqueue's own."""
