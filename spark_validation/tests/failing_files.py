"""A file system on a disk that ends its process, or fails, at a given change: before it or half way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs


class Killed(Exception):
    """Stands for the end of a process: every later change of its file system raises it, too."""


class FailingFiles(fs.FileSystemHandler):  # type: ignore[misc]
    """Like a disk, until the `at`-th change.

    With `half` this change is begun: half of a file is written, or half of it has its new name. With an
    `error` the process lives on, and only this one change fails.
    """

    def __init__(self, at: int, *, half: bool = False, error: OSError | None = None) -> None:
        self._disk = fs.LocalFileSystem()
        self._at, self._half, self._error = at, half, error
        self.changes = 0

    def _fails(self) -> bool:
        """Count a change; whether it is the one that is begun and fails."""
        self.changes += 1
        if self.changes < self._at or (self._error is not None and self.changes > self._at):
            return False
        if self._half and self.changes == self._at:
            return True
        raise self._failure()

    def _failure(self) -> Exception:
        return Killed() if self._error is None else self._error

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
        if self._fails():
            raise self._failure()
        self._disk.delete_file(path)

    def move(self, source: str, target: str) -> None:
        if self._fails():
            content = Path(source).read_bytes()
            Path(target).write_bytes(content[: len(content) // 2])
            raise self._failure()
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
        if self._files._fails():
            self._path.write_bytes(self._content[: len(self._content) // 2])
            raise self._files._failure()
        return len(content)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._files._fails():
            self._path.write_bytes(self._content[: len(self._content) // 2])
            raise self._files._failure()
        self._path.write_bytes(self._content)
