"""Evaluation of trained cells: embeddings, metrics, transfer data, reference models and pictures (t-SNE)."""
