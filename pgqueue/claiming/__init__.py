"""Claiming on a connection of one's own, as workers and pull consumers do.

A Claimer asks Turns whose turn it is among free lanes, and Rounds among governed ones; under
which id it claims, its Presence knows.
"""
