"""Commit files in ``_delta_log/_staged_commits``: writing their content, and describing them to
Delta.

Files are written through Hadoop, so that ``s3a:`` and any other scheme work with the credentials
and settings that Spark itself uses; files on the local file system are written from Python, because
Hadoop without its native library starts processes for it (``chmod``), which takes longer than all
of the rest of a commit. Delta gets a ``FileStatus`` from the server's answer: one name, one size
and one modification time for a version for every reader (log segments are compared by them).
"""

from __future__ import annotations

import os
import uuid
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from turnstile_http.api import Commit, Tail
from turnstile_spark.jvm import JavaObject, Jvm

STAGED = "_staged_commits"


@dataclass(frozen=True, slots=True)
class Write:
    """A file of a log to write: with which log store and Hadoop configuration, its path and whole
    content."""

    log_store: JavaObject
    conf: JavaObject
    path: str
    content: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class LogFiles:
    """Writes and describes commit files. Thread-safe."""

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm
        # Threads are kept: each owns a py4j connection and a JVM thread.
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="turnstile-materialise")
        self._described: OrderedDict[tuple[str, str], JavaObject] = OrderedDict()

    def close(self) -> None:
        """Waits for writes under way and ends the threads. Idempotent."""
        self._pool.shutdown(wait=True)

    def write(self, file: Write, durable: bool = True) -> None:
        """Writes a file; an existing file of that name can only have the same content.

        Whole files only: where a half-written file could be seen, it is written beside and renamed;
        where a write appears at once when it is closed (object stores), one plain write is one
        request. On the local file system a ``durable`` file survives a loss of power when this
        returns.
        """
        if file.path.startswith("file:/"):
            _write_local(Path("/" + file.path.removeprefix("file:").lstrip("/")), file.content.encode(), durable)
            return
        path = self.jvm.new("org.apache.hadoop.fs.Path", file.path)
        if file.log_store.isPartialWriteVisible(path, file.conf):
            reader = self.jvm.new("java.io.BufferedReader", self.jvm.new("java.io.StringReader", file.content))
            try:
                file.log_store.write(path, reader.lines().iterator(), False, file.conf)
            except Exception as e:
                if "FileAlreadyExists" not in str(e):
                    raise
        else:
            system = path.getFileSystem(file.conf)
            if file.path.startswith("s3a:"):
                # S3A need not look first whether the file, or a folder of that name, is there.
                builder = system.createFile(path).overwrite(True).recursive()
                stream = builder.opt("fs.s3a.create.performance", "true").build()
            else:
                stream = system.create(path, True)
            try:
                stream.write(file.content.encode())
            finally:
                stream.close()

    def rewrite(self, file: Write) -> None:
        """Writes a file of a log without readers, over an existing one, and removes the checksum of
        its version."""
        path = self.jvm.new("org.apache.hadoop.fs.Path", file.path)
        system = path.getFileSystem(file.conf)
        checksum = file.path.removesuffix(".json") + ".crc"
        system.delete(self.jvm.new("org.apache.hadoop.fs.Path", checksum), False)
        stream = system.create(path, True)
        try:
            stream.write(file.content.encode())
        finally:
            stream.close()

    def read(self, path: str, conf: JavaObject) -> str:
        """The content of a file, as text."""
        at = self.jvm.new("org.apache.hadoop.fs.Path", path)
        stream = at.getFileSystem(conf).open(at)
        try:
            return str(self.jvm.cls("org.apache.commons.io.IOUtils").toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_later(self, file: Write) -> Future[None]:
        """:meth:`write` in a thread of its own, in parallel with the caller's request to the
        server, which carries the content too: so the file need not be durable."""
        return self._pool.submit(self.write, file, durable=False)

    def describe(self, log_path: str, commit: Commit) -> JavaObject:
        """The commit as ``io.delta.storage.commit.Commit``; a published one by its file in
        ``_delta_log``."""
        file = f"{commit.version:020d}.json" if commit.published else f"{STAGED}/{commit.name}"
        key = (log_path, file)
        described = self._described.get(key)
        if described is None:
            path = self.jvm.new("org.apache.hadoop.fs.Path", f"{log_path}/{file}")
            status = self.jvm.new("org.apache.hadoop.fs.FileStatus", commit.size, False, 1, 0, commit.modified, path)
            described = self.jvm.new("io.delta.storage.commit.Commit", commit.version, status, commit.timestamp)
            self._described[key] = described
            while len(self._described) > 256:
                self._described.popitem(last=False)
        return described

    def describe_all(self, log_path: str, tail: Tail, start: int | None, end: int | None) -> JavaObject:
        """``io.delta.storage.commit.GetCommitsResponse`` for the unpublished commits from ``start``
        to ``end``.

        Published ones are left out: ``_delta_log`` has them, durably (I5), and Delta lists that
        itself.
        """
        commits = self.jvm.new("java.util.ArrayList")
        for commit in tail.commits:
            wanted = (start is None or commit.version >= start) and (end is None or commit.version <= end)
            if wanted and commit.version > tail.floor:
                commits.add(self.describe(log_path, commit))
        return self.jvm.new("io.delta.storage.commit.GetCommitsResponse", commits, tail.latest)


def _write_local(path: Path, content: bytes, durable: bool) -> None:
    """Writes a whole file of the local file system: beside, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")
    try:
        with beside.open("xb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    if durable:
        for folder in (path.parent, path.parent.parent):  # the folder itself may be new
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
