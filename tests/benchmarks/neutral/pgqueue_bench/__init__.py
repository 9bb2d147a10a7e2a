"""pgqueue's adapter for the neutral benchmark; README.md says how it is used there."""
