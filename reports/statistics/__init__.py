"""Statistics of the report, as functions over arrays and frames: tests of differences, effects, power, summaries."""
