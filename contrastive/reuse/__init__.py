"""What is computed once and read by many cells: outputs of frozen blocks, embeddings of the untrained encoder."""
