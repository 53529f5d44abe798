"""The check of the Python code in the pages: which names the reader defines, and which errors it finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.docs_code import Block, blocks, module_of


def test_blocks_are_found_with_their_lines_also_within_tabs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('# Title\n\n```python\na = 1\n```\n\n=== "tab"\n\n    ```python\n    b = 2\n    ```\n')
    assert [(block.line, block.code) for block in blocks(page)] == [(4, "a = 1\n"), (10, "b = 2\n")]


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("consumer.commit()\nfor tp in revoked:\n    print(tp)\n", "\nconsumer: Any\nrevoked: Any\n"),
        ("await consumer.start()\n", "async def _block() -> None:\n    await consumer.start()"),
    ],
)
def test_only_names_that_a_block_does_not_define_are_of_type_any_and_a_block_may_await(
    code: str, part: str
) -> None:
    module = module_of(Block(Path("page.md"), 1, code))
    assert part in module
    assert not re.search("(tp|print): Any", module)
