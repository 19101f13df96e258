"""Files and classes of Delta: commit files, checksums, cached logs and tables."""
