"""What views use to change words: synonyms, translation, a masked language model."""
