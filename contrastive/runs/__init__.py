"""The run folder of a cell: its files, who may write it, how a run is stopped, where its numbers came from."""
