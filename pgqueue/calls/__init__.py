"""Calls of the user's code: their outcomes and their traces."""
