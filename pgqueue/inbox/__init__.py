"""Messages of other systems: stored once and handled once, even if the sender repeats them."""
