"""From the YAML text of an experiment file to checked cells: messages, identity, names, and what is left to do."""
