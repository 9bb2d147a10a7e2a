"""The event log: publish once, read anywhere, in order."""
