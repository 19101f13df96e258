"""Plans of scans in Iceberg's form: of Iceberg tables and of Delta tables, and their pages."""
