"""An app whose module `events` declares handlers of groups."""
