"""Bodies, values, identities and files of requests with rows. Pure, with pyarrow."""
