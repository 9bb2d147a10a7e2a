"""What comes from outside: stored once and handled once, however often its sender repeats it."""
