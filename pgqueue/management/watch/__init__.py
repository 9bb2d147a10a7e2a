"""The live view of a queue in a terminal; it needs textual, from the extra `watch`."""
