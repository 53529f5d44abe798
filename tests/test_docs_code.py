"""The check of the Python code in the pages: which names the reader defines, and which errors it finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.docs_code import Block, blocks, module_of


def test_blocks_are_found_with_their_lines_also_within_tabs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('# Title\n\n```python\na = 1\n```\n\n=== "tab"\n\n    ```python\n    b = 2\n    ```\n')
    assert [(block.line, block.code) for block in blocks(page)] == [(4, "a = 1\n"), (10, "b = 2\n")]


def test_names_that_a_block_does_not_define_are_of_type_any() -> None:
    code = module_of(Block(Path("page.md"), 1, "consumer.commit()\nfor tp in revoked:\n    print(tp)\n"))
    assert "consumer: Any\nrevoked: Any\n" in code
    assert "tp: Any" not in code
    assert "print: Any" not in code


def test_a_block_that_awaits_becomes_a_coroutine() -> None:
    code = module_of(Block(Path("page.md"), 1, "await consumer.start()\n"))
    assert "async def _block() -> None:\n    await consumer.start()" in code


def test_code_that_does_not_parse_is_refused() -> None:
    with pytest.raises(SyntaxError):
        module_of(Block(Path("page.md"), 1, "consumer = = 1\n"))
