"""Run folders of cells: their files, locks and attempts, stop requests, content digests and provenance."""
