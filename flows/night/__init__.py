"""What the nightly flow and `ablate bisect` are made of: a panel, a search for a commit, a stopwatch, a webhook."""
