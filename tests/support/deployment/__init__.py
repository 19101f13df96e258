"""template.yaml as users deploy it: the SAM command line, an emulator of AWS, and functions that
Lambda's own Python runs."""
