"""Projects with a schema for each tenant, and their tests."""
