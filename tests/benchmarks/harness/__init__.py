"""What the benchmarks share. It is also a Django app, for the tasks that only they need."""
