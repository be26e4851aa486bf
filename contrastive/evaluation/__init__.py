"""What the embeddings of a trained cell are worth: embedding, metrics, transfer data, references, pictures."""
