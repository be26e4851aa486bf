"""The model of a cell: encoder, tuning, frozen blocks and their store, head."""
