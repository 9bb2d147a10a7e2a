"""Connections, transactions and statements: how the package talks to PostgreSQL."""
