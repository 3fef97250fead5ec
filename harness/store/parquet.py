"""Tables to Parquet bytes and back, sealed: a changed byte anywhere in a file is noticed by whoever reads it."""

from __future__ import annotations

import errno
import hashlib
import io
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.store.schema import SCHEMA_VERSION

SEAL_KEY = b"harness.seal"
SEAL = re.compile(rb"harness\.seal.{1,8}?([0-9a-f]{64})", re.DOTALL)
BLANK = b"0" * 64
WANTING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of a process that has run out of something: the file may be whole, and is not called damaged."""


class Damaged(Exception):
    """A file that cannot be used: why, in words."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


def load(path: Path) -> bytes:
    """The bytes of a file.

    Raises `Damaged` where they cannot be had, FileNotFoundError, and OSError where this process lacks what it takes.
    """
    try:
        if not path.is_dir() and not stat.S_ISREG(path.stat().st_mode):
            raise Damaged("foreign", "a pipe or a device, and no file")  # to read it might never end
        return path.read_bytes()
    except FileNotFoundError:
        if path.is_symlink():
            raise Damaged("foreign", "a link that leads nowhere") from None
        raise
    except OSError as error:
        if error.errno in WANTING:
            raise
        raise Damaged("unreadable", f"the file cannot be read: {error.strerror}") from None


def encode(folder: str, table: pa.Table, metadata: Mapping[str, str] | None = None) -> bytes:
    """The Parquet file of a table, with schema version and seal in its metadata.

    The seal is the SHA-256 of the file in which the seal itself is 64 zeros.
    """
    marks = {"harness.table": folder, "harness.schema_version": SCHEMA_VERSION, **(metadata or {})}
    marks[SEAL_KEY.decode()] = BLANK.decode()
    buffer = io.BytesIO()
    table = table.replace_schema_metadata(None)
    many = table.num_rows > 16  # dictionaries and statistics would double the size of a file with one row
    with pq.ParquetWriter(
        buffer,
        table.schema,
        compression="zstd",
        use_dictionary=many,
        write_statistics=many,
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(marks)
    content = buffer.getvalue()
    start = _seal_start(content)
    assert start is not None
    seal = hashlib.sha256(content).hexdigest().encode()
    return content[:start] + seal + content[start + 64 :]


def decode(folder: str, content: bytes) -> pa.Table:
    """The table in a file's bytes, with the file's metadata as its own.

    Raises `Damaged` for a file that is empty, cut short, altered, foreign or too new.
    """
    if not content:
        raise Damaged("empty", "the file is empty")
    if len(content) < 12 or content[:4] != b"PAR1":
        raise Damaged("foreign", "this is no Parquet file")
    if content[-4:] != b"PAR1":
        raise Damaged("truncated", "the file is cut short: the end of a Parquet file is missing")
    start = _seal_start(content)
    file = _open(content, sealed=start is not None)
    marks = file.metadata.metadata or {}
    _check_version(marks.get(b"harness.schema_version", b"").decode())
    if start is None:
        raise Damaged("foreign", "a Parquet file that this harness did not write: it has no seal")
    if content[start : start + 64] != _sealed(content, start):
        raise Damaged("altered", "the content was altered after it was written: the seal does not fit")
    if marks[b"harness.table"].decode() != folder:
        raise Damaged("foreign", f"a file of {marks[b'harness.table'].decode()}/ that lies in {folder}/")
    return file.read(use_threads=False).replace_schema_metadata(marks)


def _open(content: bytes, sealed: bool) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(pa.BufferReader(content))
    except MemoryError:  # an ArrowException too, and nothing that is wrong with the file
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        kind = "altered" if sealed else "truncated"
        raise Damaged(kind, f"the file cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def _check_version(version: str) -> None:
    major = version.partition(".")[0]
    ours = SCHEMA_VERSION.partition(".")[0]
    if major.isdigit() and int(major) > int(ours):
        raise Damaged("newer", f"written with schema {version}; this harness reads {ours}.x: upgrade it to read this")


def _sealed(content: bytes, start: int) -> bytes:
    state = hashlib.sha256(content[:start])
    state.update(BLANK)
    state.update(content[start + 64 :])
    return state.hexdigest().encode()


def _seal_start(content: bytes) -> int | None:
    """Where the seal stands: in the footer, whose length is in the last 8 bytes of the file."""
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    found = SEAL.search(content, max(footer, 0))
    return found.start(1) if found else None
