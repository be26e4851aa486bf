"""What a cell is, how an experiment expands to cells, how a cell is identified, and what is left to do for it."""
