"""Hooks of the documentation site (mkdocs.yml): links to files outside `docs/`.

A page links to files outside `docs/` by their relative path, so that the link works in the repository. On the
site the link leads to the repository address in pyproject.toml. A link to a file that does not exist fails
the build.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from mkdocs.exceptions import PluginError

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
_UPWARD = re.compile(r"\]\((?P<path>\.\./[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def repository_url() -> str:
    """The address of the repository; only pyproject.toml contains it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Repository"]).rstrip("/")


def on_config(config: Any) -> Any:
    config.repo_url = repository_url()
    config.repo_name = "Repository"
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to files outside `docs/` to the repository."""

    folder = (DOCS / page.file.src_uri).parent

    def absolute(link: re.Match[str]) -> str:
        target = (folder / link["path"]).resolve()
        if target.is_relative_to(DOCS):
            return link[0]
        if not target.exists():
            raise PluginError(f"{page.file.src_uri}: the link to {link['path']} leads to no file")
        kind = "tree" if target.is_dir() else "blob"
        path = target.relative_to(ROOT).as_posix()
        return f"]({repository_url()}/{kind}/main/{path}{link['anchor'] or ''})"

    return _UPWARD.sub(absolute, markdown)
