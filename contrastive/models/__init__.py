"""The network of a cell: encoder, tuning, attention, frozen blocks, head."""
