"""Tools with which views change words: synonyms, translation, a masked language model."""
