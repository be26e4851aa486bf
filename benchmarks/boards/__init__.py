"""Public boards of other people: their numbers as published, and what these can tell."""
