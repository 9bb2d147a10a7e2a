"""Lists of millions of rows, for pages and commands: bounded, in the order of an index."""
