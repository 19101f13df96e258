"""Hadoop's options for S3A that ``session(s3=...)`` sets."""

from __future__ import annotations

import pytest

from turnstile_spark.session import _s3a, packages_of

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


@pytest.mark.parametrize(("pyspark", "hadoop"), [("4.0.2", "3.4.1"), ("4.1.0", "3.4.2"), ("4.2.0", "3.5.0")])
def test_a_session_has_the_delta_and_the_hadoop_of_its_spark(pyspark: str, hadoop: str) -> None:
    assert packages_of(pyspark, s3=False) == [f"io.delta:delta-spark_{pyspark[:3]}_2.13:4.4.0"]
    assert f"org.apache.hadoop:hadoop-aws:{hadoop}" in packages_of(pyspark, s3=True)


def test_another_spark_is_refused_with_what_to_install() -> None:
    with pytest.raises(ValueError, match=r"does not know PySpark 3\.5\.1: install one of 4\.0, 4\.1, 4\.2"):
        packages_of("3.5.1", s3=False)
