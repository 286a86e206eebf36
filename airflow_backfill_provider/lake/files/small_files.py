"""Writes small files to a table's folder, outside of deltalake's commits."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.fs as arrow_fs


def write_file(storage: arrow_fs.FileSystem, path: str, content: bytes) -> None:
    """
    Write a file at once; it replaces an older one.

    :param storage: of deltalake's handler.
    """
    # deltalake's stream takes only bytes. Arrow passes its own buffers on, but what it collects it writes as bytes.
    with pa.BufferedOutputStream(storage.open_output_stream(path), len(content) + 1) as stream:
        stream.write(content)
