"""A file system on a disk that ends its process, or fails, at a given change: before it or half way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs


class Killed(Exception):
    """Stands for the end of a process: every later change of its file system raises it, too."""


def write_half(file: Path, content: bytes) -> None:
    file.write_bytes(content[: len(content) // 2])


class FailingFiles(fs.FileSystemHandler):  # type: ignore[misc]
    """Like a disk, until the `at`-th change.

    With `half` this change is begun: half of a file is written, or half of it has its new name. With an
    `error` the process lives on, and only this one change fails.
    """

    def __init__(self, at: int, *, half: bool = False, error: OSError | None = None) -> None:
        self._disk = fs.LocalFileSystem()
        self._at, self._half, self._error = at, half, error
        self.changes = 0

    def change(self, half: Callable[[], object] = lambda: None) -> None:
        """Count a change; raises if it fails, after `half` of it if it is begun."""
        self.changes += 1
        if self.changes < self._at or (self._error is not None and self.changes > self._at):
            return
        if self._half and self.changes == self._at:
            half()
        raise self._error or Killed()

    def get_type_name(self) -> str:
        return "failing"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> Any:
        return self._disk.get_file_info(paths)

    def get_file_info_selector(self, selector: fs.FileSelector) -> Any:
        return self._disk.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._disk.create_dir(path, recursive=recursive)

    def delete_file(self, path: str) -> None:
        self.change()
        self._disk.delete_file(path)

    def move(self, source: str, target: str) -> None:
        self.change(lambda: write_half(Path(target), Path(source).read_bytes()))
        self._disk.move(source, target)

    def open_input_stream(self, path: str) -> Any:
        return self._disk.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        return self._disk.open_input_file(path)

    def open_output_stream(self, path: str, metadata: object) -> Any:
        return pa.PythonFile(_Written(self, path), mode="w")

    def _refuse(self, *_: object) -> None:
        raise NotImplementedError

    copy_file = delete_dir = delete_dir_contents = delete_root_dir_contents = open_append_stream = _refuse


class _Written:
    """A file that is being written; each write is a change, and so is the end."""

    def __init__(self, files: FailingFiles, path: str) -> None:
        self._files, self._path = files, Path(path)
        self._content = b""
        self.closed = False

    def write(self, content: Any) -> int:
        self._content += bytes(content)
        self._files.change(lambda: write_half(self._path, self._content))
        return len(content)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._files.change(lambda: write_half(self._path, self._content))
            self._path.write_bytes(self._content)
