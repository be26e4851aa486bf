"""From the YAML text of an experiment file to checked cells: messages, identity, names, cost, and what must run."""
