"""The training of one cell: its steps, several processes, sharded state, checks of its gradients."""
