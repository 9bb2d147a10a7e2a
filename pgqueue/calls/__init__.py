"""Calls of the user's code: what they came to, and what is traced of them."""
