"""Strategies by name: where a word on the command line or in a configuration becomes a strategy object.

A strategy is found in four ways:

- one of ours by its name (`range`, `weighted` …), from a table here, since executors that get the package by
  `--py-files` have no entry points;
- one of an installed package, by the name under which it is registered in the entry-point group
  `kafka_assignors.strategies`;
- any other as `module:attribute`, for example `my_package.strategies:Weighted`;
- one in a Python file as `FILE.py:attribute`, for example `./weighted.py:Weighted`; the file runs as code.

Users who come from another client know a strategy by its class: two tables say which strategy that is.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import cast

from kafka_assignors.strategy import Strategy, contract_problem
from kafka_assignors.text_files import TextFileError, read_text

ASSIGNOR_CLASSES: Mapping[str, str] = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
    "RackAwareStickyAssignor": "rack-aware-sticky",
    "CapacityAssignor": "capacity",
}
"""The classes of our adapters, some of which Java and kafka-python have under the same names."""

STOCK_CLASSES: Mapping[str, str] = {
    "RangePartitionAssignor": "range",
    "RoundRobinPartitionAssignor": "roundrobin",
    "StickyPartitionAssignor": "sticky",
}
"""The classes of aiokafka and kafka-python that have a name of their own."""

_ON_BROKER = "org.apache.kafka.coordinator.group.assignor."
_BROKER_CLASSES = {"RangeAssignor": "kip848-range", "UniformAssignor": "kip848-uniform"}
_PACKAGES = re.compile(
    r"(org\.apache\.kafka|aiokafka|kafka|kafka_assignors_(aiokafka|kafka_python|strategies))[.:]"
)


def strategy_of_class(text: str) -> str | None:
    """The name of the strategy that a class stands for; None if it is no class of a client or an adapter.

    `text` is the name of the class alone, or after its package or module, with a dot or a colon.
    """
    class_name = re.split(r"[.:]", text)[-1]
    if text.startswith(_ON_BROKER):
        return _BROKER_CLASSES.get(class_name)
    if class_name != text and not _PACKAGES.match(text):
        return None
    return ASSIGNOR_CLASSES.get(class_name) or STOCK_CLASSES.get(class_name)


ENTRY_POINT_GROUP = "kafka_assignors.strategies"

_OURS: Mapping[str, str] = {
    "capacity": "kafka_assignors.strategies.rack_aware_capacity:Capacity",
    "cooperative-sticky": "kafka_assignors.strategies.sticky:CooperativeSticky",
    "kip848-range": "kafka_assignors_strategies.kip848:Kip848Range",
    "kip848-uniform": "kafka_assignors_strategies.kip848:Kip848Uniform",
    "priority": "kafka_assignors_strategies.composed:Priority",
    "rack-aware-sticky": "kafka_assignors.strategies.rack_aware_capacity:RackAwareSticky",
    "range": "kafka_assignors.strategies.range_roundrobin:Range",
    "rollout": "kafka_assignors_strategies.composed:Rollout",
    "roundrobin": "kafka_assignors.strategies.range_roundrobin:RoundRobin",
    "standby": "kafka_assignors_strategies.composed:Standby",
    "sticky": "kafka_assignors.strategies.sticky:Sticky",
    "weighted": "kafka_assignors_strategies.weighted:Weighted",
}
"""Our strategies by name, each as module:attribute."""

_MODULE_ATTRIBUTE = re.compile(
    r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<attribute>[^\W\d]\w*(\.[^\W\d]\w*)*)"
)

_FILE_ATTRIBUTE = re.compile(r"(?P<file>.*\.py):(?P<attribute>[^\W\d]\w*(\.[^\W\d]\w*)*)", re.DOTALL)


class StrategyError(ValueError):
    """The named strategy cannot be used: the message says why."""


class UnknownStrategyError(StrategyError):
    """Nothing is known under this name; `near` holds known names that resemble it."""

    def __init__(self, name: str, known: list[str]) -> None:
        self.name = name
        of_class = strategy_of_class(name)
        near = difflib.get_close_matches(name.lower().replace("_", "-"), known, n=3, cutoff=0.55)
        self.near = tuple(near) if of_class is None else (of_class,)
        if of_class is not None:
            hint = f"that is the name of a class, and its strategy is {of_class!r} here"
        elif name.endswith(".py"):
            hint = f"name the strategy in that file, as {name}:MyStrategy"
        elif self.near:
            hint = f"did you mean {' or '.join(map(repr, self.near))}?"
        else:
            hint = f"known are {', '.join(known)}; give any other as module:attribute or FILE.py:attribute"
        super().__init__(f"there is no strategy {name!r}: {hint}")


class InvalidStrategyError(StrategyError):
    """The object found does not fulfil the contract of a strategy."""


def strategy_names() -> list[str]:
    """The names `load_strategy` knows in this environment: ours and those of installed packages, sorted."""
    return sorted({*_OURS, *(point.name for point in metadata.entry_points(group=ENTRY_POINT_GROUP))})


def load_strategy(spec: str) -> Strategy:
    """The strategy called `spec`: a name, `module:attribute` or `FILE.py:attribute`.

    A class is instantiated, without arguments. Raises `UnknownStrategyError` when there is none of that name,
    `InvalidStrategyError` when what is there is not a strategy, `StrategyError` when it cannot be imported.
    """
    if (match := _FILE_ATTRIBUTE.fullmatch(spec)) is not None:
        module = _module_of_file(match["file"], spec)
        return _checked(_attribute(module, match["attribute"], match["file"], spec), spec)
    if spec in _OURS or (":" in spec and strategy_of_class(spec) is None):
        return _checked(_imported(_OURS.get(spec, spec), spec), spec)
    points = list(metadata.entry_points(group=ENTRY_POINT_GROUP, name=spec))
    if not points:
        raise UnknownStrategyError(spec, strategy_names())
    targets = sorted({point.value for point in points})
    if len(targets) > 1:
        raise StrategyError(
            f"strategy {spec!r} is registered by several installed packages ({', '.join(targets)}): "
            f"name the one you mean as module:attribute"
        )
    strategy = _checked(_imported(targets[0], spec), spec)
    if strategy.name != spec:
        # Members vote on the strategy's own name, so another one here would mislead the user.
        raise InvalidStrategyError(
            f"strategy {spec!r} ({targets[0]}) calls itself {strategy.name!r}: register it under that name"
        )
    return strategy


def _imported(target: str, spec: str) -> object:
    match = _MODULE_ATTRIBUTE.fullmatch(target)
    if match is None:
        raise StrategyError(
            f"strategy {spec!r} is neither a name nor of the form module:attribute or FILE.py:attribute; one "
            "with settings is an attribute too: large = MyStrategy(size=3)"
        )
    module_name, attribute = match["module"], match["attribute"]
    try:
        found: object = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # A module may raise anything while it is imported.
        problem = f"importing {module_name!r} failed: {type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError):
            problem = f"importing {module_name!r} failed: {error}"
            if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
                problem = f"there is no module {module_name!r}"
                if (file := Path(f"{module_name.replace('.', '/')}.py")).is_file():
                    problem += f", but {file} is here: name the strategy as {file}:{attribute}"
        raise StrategyError(f"strategy {spec!r}: {problem}") from error
    return _attribute(found, attribute, module_name, spec)


def _module_of_file(file: str, spec: str) -> ModuleType:
    """The module that the code in a file makes; a file with the same text runs once in a process.

    It can import the files beside it: their folder is the last of the module search path from then on, so
    that it hides no installed module.
    """
    path, failed = Path(file), f"strategy {spec!r}: {file}"
    try:
        text = read_text(path)
    except TextFileError as error:
        raise StrategyError(f"{failed} cannot be read: {error}") from None
    digest = hashlib.sha256(f"{path.resolve()}\0{text}".encode()).hexdigest()[:16]
    name = f"kafka_assignors_strategy_file_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    try:
        code = compile(text, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise StrategyError(f"{failed}:{error.lineno or 1}: not Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise StrategyError(f"{failed}: not Python: {error or type(error).__name__}") from None
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
        if not isinstance(error, Exception | SystemExit):
            raise
        raise StrategyError(f"{failed}: it fails when it runs: {type(error).__name__}: {error}") from error
    return module


def _attribute(found: object, attribute: str, source: str, spec: str) -> object:
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            near = difflib.get_close_matches(name, [n for n in dir(found) if not n.startswith("_")], n=1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise StrategyError(f"strategy {spec!r}: {source!r} has no {attribute!r}{hint}") from None
        except (Exception, SystemExit) as error:  # So may the code of an attribute.
            problem = f"{name!r} fails: {type(error).__name__}: {error}"
            raise StrategyError(f"strategy {spec!r}: {source!r}: {problem}") from error
    return found


def _checked(found: object, spec: str) -> Strategy:
    strategy = _instance(found, spec) if isinstance(found, type) else found
    try:
        problem = contract_problem(strategy)
    except (Exception, SystemExit) as error:
        problem = f"an attribute of it fails: {type(error).__name__}: {error}"
    if problem:
        raise InvalidStrategyError(f"{spec!r} is not a strategy: {problem}")
    return cast("Strategy", strategy)


def _instance(kind: type, spec: str) -> object:
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        raise InvalidStrategyError(
            f"{spec!r} is a class without {missing[0]!r}: define it in {kind.__name__}"
        )
    try:
        return kind()
    except (Exception, SystemExit) as error:  # A constructor may raise anything.
        raise InvalidStrategyError(
            f"{spec!r} is a class that cannot be made without arguments ({error}): make an instance in a "
            f"module of yours, as in `mine = {kind.__name__}(…)`, and give module:mine, or give a class "
            "without required arguments"
        ) from error
