"""The WAL feed: commits that PostgreSQL tells of give events their positions, and wake readers."""
