"""The types that an experiment file is checked against."""
