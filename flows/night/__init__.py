"""What the nightly flow and `ablate bisect` are made of: a panel, commits, a search, a stopwatch, a webhook."""
