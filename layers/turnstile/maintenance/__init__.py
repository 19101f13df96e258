"""Light work on Delta tables without Spark: checkpoints, version checksums, log compaction files; what a table's files are."""
