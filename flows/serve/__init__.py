"""The servers of `ablate up` and of a single command: starting, guarding, watching and stopping them."""
