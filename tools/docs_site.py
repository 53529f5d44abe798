"""Hooks of the documentation site (mkdocs.yml): the page of commands, and links to files outside `docs/`.

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
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
_OUTSIDE = re.compile(r"\]\(\.\./(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")

COMMANDS_HEAD = """# Commands and options

This page is generated from the command line itself, so `--help` says the same. What the commands read and
write, and their exit codes: [formats and exit codes](command-line.md).

"""


def repository_url() -> str:
    """The address of the repository; only pyproject.toml contains it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Repository"]).rstrip("/")


def on_config(config: Any) -> Any:
    config.repo_url = repository_url()
    config.repo_name = "Repository"
    return config


def on_files(files: Files, config: Any) -> Files:
    files.append(File.generated(config, "commands.md", content=commands_page()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to files outside `docs/` to the repository."""

    def absolute(link: re.Match[str]) -> str:
        path = ROOT / link["path"]
        if not path.exists():
            raise PluginError(f"{page.file.src_uri}: the link to ../{link['path']} leads to no file")
        kind = "tree" if path.is_dir() else "blob"
        return f"]({repository_url()}/{kind}/main/{link['path']}{link['anchor'] or ''})"

    return _OUTSIDE.sub(absolute, markdown)


def commands_page() -> str:
    """Every command with its arguments and options, as Markdown."""
    import typer.main

    from kafka_assignors_cli.app import command_line

    command = typer.main.get_command(command_line())
    return COMMANDS_HEAD + "".join(_sections(command, "kafka-assignors"))


def _sections(command: Any, path: str) -> list[str]:
    parts = [f"## `{path}`\n\n{_plain(command.help)}\n\n{_parameters(command)}{_epilog(command.epilog)}\n\n"]
    for name, child in sorted(getattr(command, "commands", {}).items()):
        parts += _sections(child, f"{path} {name}")
    return parts


def _epilog(text: str | None) -> str:
    """The epilog, with its command lines as code."""
    if text is None:
        return ""
    parts = []
    for paragraph in text.strip().split("\n\n"):
        line = " ".join(paragraph.split())
        is_command = re.match(r"(?:kafka-assignors|generate-groups|[a-z-]+ .*\| kafka-assignors) ", line)
        parts.append(f"```console\n$ {line}\n```" if is_command else _plain(line))
    return "\n\n".join(parts)


def _plain(text: str | None) -> str:
    return (
        ""
        if text is None
        else re.sub(r"[<>]", lambda sign: {"<": "&lt;", ">": "&gt;"}[sign[0]], text.strip())
    )


def _parameters(command: Any) -> str:
    rows = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        names = ", ".join(f"`{name}`" for name in parameter.opts) if parameter.opts else f"`{parameter.name}`"
        metavar = parameter.metavar or ""
        if parameter.param_type_name == "argument":
            names, metavar = f"`{metavar or parameter.name.upper()}`", ""
        described = " ".join(_plain(getattr(parameter, "help", "")).split())
        cells = [f"{names} `{metavar}`" if metavar else names, described or "–"]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return "| argument or option | meaning |\n|---|---|\n" + "".join(rows) + "\n" if rows else ""
