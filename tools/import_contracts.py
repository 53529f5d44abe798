"""An import-linter contract: the named packages import only themselves and the standard library.

import-linter can forbid named packages, but has no way to say "no third-party package at all".
`typing_extensions` is allowed, because type checkers know it without an installation; a test imports every
module of the core without it.
"""

from __future__ import annotations

import sys
from typing import Any

from importlinter import Contract, ContractCheck, fields, output


class StdlibOnly(Contract):
    type_name = "stdlib_only"

    packages = fields.ListField(subfield=fields.ModuleField())

    def check(self, graph: Any, verbose: bool) -> ContractCheck:
        own = {package.name for package in self.packages}  # type: ignore[attr-defined]
        allowed = own | set(sys.stdlib_module_names) | {"typing_extensions"}
        broken = [
            detail
            for package in own
            for importer in {package, *graph.find_descendants(package)}
            for imported in graph.find_modules_directly_imported_by(importer)
            if imported.split(".")[0] not in allowed
            for detail in graph.get_import_details(importer=importer, imported=imported)
        ]
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for detail in sorted(check.metadata["broken"], key=lambda d: (d["importer"], d["line_number"])):
            output.print_error(f"{detail['importer']}:{detail['line_number']}: {detail['line_contents']}")
