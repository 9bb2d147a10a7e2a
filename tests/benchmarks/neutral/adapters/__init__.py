"""Adapters of other queues for our own runner of the neutral benchmark; each is run as a module."""
