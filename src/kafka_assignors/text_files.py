"""Text files that users write: read as a whole, but only up to a limit.

A device or a pipe that never ends would otherwise fill the memory.
"""

from __future__ import annotations

from pathlib import Path

MOST_BYTES = 16 * 2**20
"""The most bytes of a file of settings. The largest real ones are a thousand times smaller."""

_FIRST_BYTES = 2**20


class TextFileError(ValueError):
    """The file cannot be read as text: the message says why, without the name of the file."""


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """The text in a UTF-8 file, with or without a byte order mark; raises `TextFileError`."""
    try:
        with path.open("rb") as stream:
            content = stream.read(min(_FIRST_BYTES, most_bytes + 1))
            # The first bytes give a device such as /dev/zero away, long before the limit.
            if b"\0" not in content:
                content += stream.read(most_bytes + 1 - len(content))
        if b"\0" in content:
            raise TextFileError("not a text file: it has a zero byte")
        if len(content) > most_bytes:
            raise TextFileError(f"larger than the {most_bytes:,} bytes that are read here")
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise TextFileError(error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise TextFileError("not UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
