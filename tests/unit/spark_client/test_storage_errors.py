"""What a failure of S3 means: the cause and the remedy, from chains of exceptions as S3A has
them."""

from __future__ import annotations

import pytest

from turnstile_spark.storage_errors import storage_failure

PATH = "s3a://lake/warehouse/t/_delta_log/00000000000000000000.json"
SDK = "software.amazon.awssdk.services.s3.model.S3Exception"
CHAINS = {
    "endpoint of S3 cannot be reached": [
        (
            "java.net.ConnectException",
            f"Call to {PATH}: software.amazon.awssdk.core.exception.SdkClientException: Unable to execute HTTP request",
        ),
        (
            "software.amazon.awssdk.core.exception.SdkClientException",
            "Unable to execute HTTP request: Connect to localhost:1: Connection refused",
        ),
    ],
    "does not accept the credentials": [
        (
            "java.nio.file.AccessDeniedException",
            f"{PATH}: getFileStatus on {PATH}: {SDK}: null (Service: S3, Status Code: 403):InvalidAccessKeyId",
        ),
        (SDK, "The AWS Access Key Id you provided does not exist (Service: S3, Status Code: 403)"),
    ],
    "credentials have expired": [
        ("org.apache.hadoop.fs.s3a.AWSBadRequestException", f"{PATH}: ExpiredToken: The provided token has expired."),
        (SDK, "The provided token has expired. (Service: S3, Status Code: 400)"),
    ],
    "no credentials": [
        (
            "java.nio.file.AccessDeniedException",
            f"{PATH}: org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS Credentials provided",
        ),
        (
            "org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException",
            "No AWS Credentials provided by SimpleAWSCredentialsProvider",
        ),
    ],
    "no such bucket": [
        (
            "org.apache.hadoop.fs.s3a.UnknownStoreException",
            f"`{PATH}': getFileStatus on {PATH}: NoSuchBucket: The specified bucket does not exist",
        ),
    ],
    "another region": [
        ("org.apache.hadoop.fs.s3a.AWSRedirectException", f"Received permanent redirect response on {PATH}")
    ],
    "S3 refuses the access": [
        ("java.nio.file.AccessDeniedException", f"{PATH}: Forbidden"),
        (SDK, "Access Denied (Status Code: 403)"),
    ],
    "has no S3A": [
        (
            "java.lang.RuntimeException",
            "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
        )
    ],
    "S3 is busy": [("org.apache.hadoop.fs.s3a.AWSServiceThrottledException", f"{PATH}: SlowDown (Status Code: 503)")],
    "S3 failed": [("org.apache.hadoop.fs.s3a.AWSClientIOException", f"{PATH}: something new")],
}


@pytest.mark.parametrize("cause", CHAINS)
def test_the_one_line_has_the_cause_and_where(cause: str) -> None:
    failure = storage_failure([("org.apache.spark.SparkException", "Job aborted"), *CHAINS[cause]])
    assert failure is not None
    assert cause in failure.text
    assert len(failure.text) < 700 and "\n" not in failure.text
    assert ("s3a://lake" in failure.text) == ("s3a://" in str(CHAINS[cause]))


@pytest.mark.parametrize(
    "chain",
    [
        [],
        [("org.apache.spark.SparkException", "Job aborted: Connection refused")],
        [("java.io.FileNotFoundException", "File file:/tmp/t/1.parquet does not exist")],
        [("java.lang.ClassNotFoundException", "com.example.Nothing")],
    ],
)
def test_what_is_not_of_s3_is_left_alone(chain: list[tuple[str, str]]) -> None:
    assert storage_failure(chain) is None
