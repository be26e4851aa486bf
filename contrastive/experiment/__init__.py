"""From the YAML text of an experiment file to a checked experiment, and the messages for what is wrong in it."""
