"""The console in a real browser, on a real server with real tables: ``make console-test``."""
