"""Helpers for the tests of a project."""
