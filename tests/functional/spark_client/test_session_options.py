"""What `session(s3=...)` tells Hadoop's S3A."""

from __future__ import annotations

from turnstile_spark.session import _s3a

KEY = "spark.hadoop.fs.s3a."
PROVIDERS = "org.apache.hadoop.fs.s3a."


def test_s3a_does_not_look_first_where_it_creates() -> None:
    assert _s3a(True)[KEY + "performance.flags"] == "create,mkdir"
    assert KEY + "aws.credentials.provider" not in _s3a(True)


def test_an_access_key_alone_is_used_as_it_is() -> None:
    options = _s3a({"access_key": "A", "secret_key": "S"})
    assert options[KEY + "aws.credentials.provider"] == PROVIDERS + "SimpleAWSCredentialsProvider"
    assert KEY + "session.token" not in options


def test_a_session_token_goes_with_its_keys() -> None:
    options = _s3a({"access_key": "A", "secret_key": "S", "session_token": "T"})
    assert options[KEY + "aws.credentials.provider"] == PROVIDERS + "TemporaryAWSCredentialsProvider"
    assert (options[KEY + "access.key"], options[KEY + "secret.key"], options[KEY + "session.token"]) == ("A", "S", "T")
