"""A strategy in a Python file that a user names: the file runs as Python code."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import ModuleType

from kafka_assignors.text_files import read_text


class CodeError(ValueError):
    """The file is not Python, or it raised an error: the message says where, beginning with the file."""


def module_of_file(file: str) -> ModuleType:
    """The module that the code in a file makes; a file with the same text runs once in a process.

    It can import the files beside it: their folder is the last of the module search path from then on, so
    that it hides no installed module.

    Raises `TextFileError` if the file cannot be read, and `CodeError`.
    """
    path = Path(file)
    text = read_text(path)
    digest = hashlib.sha256(f"{path.resolve()}\0{text}".encode()).hexdigest()[:16]
    name = f"kafka_assignors_strategy_file_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    try:
        code = compile(text, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise CodeError(f"{path}:{error.lineno or 1}: not Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise CodeError(f"{path}: not Python: {error or type(error).__name__}") from None
    module = ModuleType(name)
    module.__file__ = str(path)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    # Dataclasses and pickle look for the module of a class here.
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)  # The user names the file in order to run it.
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, Exception):
            raise
        raise CodeError(f"{path}: it fails when it runs: {type(error).__name__}: {error}") from error
    return module
