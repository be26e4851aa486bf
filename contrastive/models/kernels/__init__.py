"""Faster ways to compute the same outputs of an encoder."""
