"""The requests of functions to AWS, recorded by botocore, and the rights of their roles in
template.yaml."""
