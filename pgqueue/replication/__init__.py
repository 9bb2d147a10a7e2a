"""The WAL feed: at each announced commit, it gives events their positions, and wakes readers."""
