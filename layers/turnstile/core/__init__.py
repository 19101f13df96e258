"""The pure core. Everything here is a function of its arguments; import-linter keeps it so."""
