"""What a grid will cost in time and memory, and the order in which its cells run."""
