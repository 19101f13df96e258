"""The reads of a transaction: of rows, from the plans that Spark executed, and of the catalog."""
