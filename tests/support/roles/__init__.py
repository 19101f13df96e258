"""What the functions ask of AWS, recorded by botocore, and what their roles in template.yaml let them."""
