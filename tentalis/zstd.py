"""Bytes that are packed by Zstandard, by the library that Parquet files bring along."""


def unpack_zstd(data: bytes, most: int) -> bytes:
    """What they unfold into, of which no more than `most` bytes are made; of several frames all.

    Raises:
        ValueError, OSError: they are none.
    """
    import pyarrow

    with pyarrow.CompressedInputStream(pyarrow.BufferReader(data), "zstd") as stream:
        found: bytes = stream.read(most)
    return found
