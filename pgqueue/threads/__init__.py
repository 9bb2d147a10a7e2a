"""Threads, forks and notifications that the services of a process share."""
