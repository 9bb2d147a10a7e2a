"""The live view of a queue in a terminal. It needs textual, which comes with the extra `watch`."""
