"""Server-sent events: open responses, their clients and their wire format."""
