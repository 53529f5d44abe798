"""A strategy as a TOML file: the rules in their order, and what this process announces.

    format = 1
    name = "acme-joins"                        # what members vote on; the same on all of them

    [[rule]]
    kind = "together"
    topics = [["orders", "payments"]]

    [[rule]]
    kind = "balance"

    [[rule]]
    kind = "movement"

    [[rule]]
    kind = "racks"

    [announce]                                 # the facts of this process, for rules that use them
    release = "${RELEASE}"                     # a variable of the environment
    capacity = "${CPUS:1}"                     # the same, 1 if it is not set

    [[suppose]]                                # the facts of members that announce none; the first match
    member = "canary-*"                        # a pattern of instance ids, or else member ids
    release = "v2"

Rules take the arguments of their classes as keys. All members need the same rules; each announces its own
facts. The file is read once, when the strategy is loaded.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_assignors.member_facts import WHOLE_SHARE, Facts, InvalidFactError, Supposed
from kafka_assignors.strategies.composed import Composed, RuleOrderError
from kafka_assignors.strategies.rules import (
    Draining,
    FewestMoves,
    FewestRackMisses,
    KeepTogether,
    LevelByCapacity,
    LevelByPriority,
    LevelByWeight,
    LevelPartitions,
    RackTrade,
    Rule,
    ShareByRelease,
    StandbyLast,
)
from kafka_assignors.strategy import BOTH_PROTOCOLS, RebalanceProtocol

FORMAT = 1
"""The version of this form. A higher one is refused."""

_KEYS = ("format", "name", "protocols", "rule", "announce", "suppose")
_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::(?P<default>[^}]*))?\}")


class DeclarationError(ValueError):
    """The declaration is no strategy: the message begins with the key that is wrong."""


_RULES: Mapping[str, type[Rule]] = {
    rule.kind: rule
    for rule in (
        Draining,
        ShareByRelease,
        KeepTogether,
        StandbyLast,
        LevelPartitions,
        LevelByCapacity,
        LevelByWeight,
        FewestMoves,
        FewestRackMisses,
        RackTrade,
    )
}
_CLASSES = "first"
"""The key that makes a `balance` rule a `LevelByPriority`."""

_EXAMPLES: Mapping[str, str] = {
    "draining": '{kind = "draining"}, {kind = "balance"}, {kind = "movement"}',
    "together": '{kind = "together", topics = [["orders", "payments"]]}, {kind = "balance"}, '
    '{kind = "movement"}, {kind = "racks"}',
    "weights": '{kind = "weights", threshold = 0.1}',
    "trade": '{kind = "balance"}, {kind = "trade", moves_per_miss = 2}',
}
"""The rules of an example with this kind of rule. The example of `together` is for all other kinds."""

_STRATEGY_OF_RULES = {"co-partitioned": "together"}
"""The strategies that cannot be loaded by name, since a rule of theirs needs parameters; and that rule."""


def how_to_declare(name: str) -> str | None:
    """How to declare a strategy in a file, with an example, if `name` is a kind of rule or needs parameters.

    None for any other name.
    """
    kind = _STRATEGY_OF_RULES.get(name, name)
    if kind not in _RULES:
        return None
    about = "that is a kind of rule" if kind == name else f"it needs rule {kind!r} with its parameters"
    rules = _EXAMPLES.get(kind, _EXAMPLES["together"])
    return (
        f'{about}: write a file such as rules.toml with the lines `name = "my-rules"` and '
        f"`rule = [{rules}]`, and give its path as the strategy"
    )


def strategy_of(settings: Mapping[str, object], environment: Mapping[str, str]) -> Composed:
    """The strategy that a table declares; `DeclarationError`, which names the key, if it declares none.

    `environment` are the variables that it may ask for.
    """
    _known_keys("", settings, _KEYS)
    if (version := settings.get("format", FORMAT)) != FORMAT:
        raise DeclarationError(f"format: this version reads format {FORMAT}, not {version!r}")
    name = settings.get("name")
    if not isinstance(name, str):
        found = "is missing" if name is None else f"expected the name that members vote on, found {name!r}"
        raise DeclarationError(f"name: {found}")
    listed = settings.get("rule")
    if isinstance(listed, Mapping):
        raise DeclarationError("rule: it is one table; each rule begins with [[rule]], in double brackets")
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise DeclarationError("rule: there is none; each begins with [[rule]]")
    rules = tuple(_rule(f"rule[{place}]", each) for place, each in enumerate(listed))
    announces = _announced("announce", settings.get("announce", {}), environment)
    supposes = _supposed(settings.get("suppose", ()), environment)
    protocols = _protocols(settings.get("protocols"))
    try:
        return Composed(name, rules, announces, protocols, supposes)
    except RuleOrderError as error:
        raise DeclarationError(str(error)) from None


def _rule(where: str, settings: object) -> Rule:
    if not isinstance(settings, Mapping):
        raise DeclarationError(f"{where}: expected a table, found {settings!r}")
    kind = settings.get("kind")
    if not isinstance(kind, str) or kind not in _RULES:
        found = _no_such(str(kind), list(_RULES), what="rule") if kind is not None else "is missing"
        raise DeclarationError(f"{where}.kind: {found}")
    given = {key: value for key, value in settings.items() if key != "kind"}
    rule_class: type[Any] = _RULES[kind]
    if rule_class is LevelPartitions and _CLASSES in given:
        rule_class = LevelByPriority
    parameters = {
        name: one for name, one in inspect.signature(rule_class).parameters.items() if name != "self"
    }
    known = [*parameters, *([_CLASSES] if rule_class is LevelPartitions else ())]
    _known_keys(f"{where}.", given, known)
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in given:
            raise DeclarationError(f"{where}.{name}: is missing")
    try:
        rule: Rule = rule_class(**given)
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"{where}: {error}") from None
    return rule


def _protocols(listed: object) -> tuple[RebalanceProtocol, ...]:
    if listed is None:
        return BOTH_PROTOCOLS
    of_clients = {protocol.value: protocol for protocol in BOTH_PROTOCOLS}
    if (
        not isinstance(listed, Sequence)
        or isinstance(listed, str)
        or not listed
        or any(each not in of_clients for each in listed)
    ):
        raise DeclarationError(
            f'protocols: expected "cooperative", "eager" or both in a list, found {listed!r}'
        )
    return tuple(dict.fromkeys(of_clients[each] for each in listed))


def _supposed(listed: object, environment: Mapping[str, str]) -> tuple[Supposed, ...]:
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise DeclarationError(
            f"suppose: expected tables, each of which begins with [[suppose]], found {listed!r}"
        )
    supposed = []
    for place, settings in enumerate(listed):
        where = f"suppose[{place}]"
        if not isinstance(settings, Mapping):
            raise DeclarationError(f"{where}: expected a table, found {settings!r}")
        member = settings.get("member")
        if not isinstance(member, str):
            raise DeclarationError(
                f"{where}.member: expected a pattern of instance or member ids, found {member!r}"
            )
        facts = {key: value for key, value in settings.items() if key != "member"}
        supposed.append(Supposed(member, _announced(where, facts, environment)))
    return tuple(supposed)


def _announced(of: str, settings: object, environment: Mapping[str, str]) -> Facts:
    if not isinstance(settings, Mapping):
        raise DeclarationError(f"{of}: expected a table, found {settings!r}")
    readers: dict[str, Callable[[str, object], Any]] = {
        "release": _text,
        "share": _share,
        "draining": _mark,
        "capacity": _whole,
        "standby": _mark,
    }
    _known_keys(f"{of}.", settings, tuple(readers))
    facts: dict[str, Any] = {}
    for key, value in settings.items():
        where = f"{of}.{key}"
        value = _resolved(where, value, environment)
        if value != "":
            facts[key] = readers[key](where, value)
    try:
        return Facts(**facts)
    except InvalidFactError as error:
        raise DeclarationError(f"{of}: {error}") from None


def _resolved(where: str, value: object, environment: Mapping[str, str]) -> object:
    if not isinstance(value, str):
        return value

    def look_up(match: re.Match[str]) -> str:
        found = environment.get(match["name"], match["default"])
        if found is None:
            raise DeclarationError(
                f"{where}: the environment has no {match['name']}: set it, or write "
                f"${{{match['name']}:default}}"
            )
        return found

    return _VARIABLE.sub(look_up, value)


def _text(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise DeclarationError(f"{where}: expected text, found {value!r}")
    return value


def _whole(where: str, value: object) -> int:
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value):
        return int(value)
    if type(value) is not int:
        raise DeclarationError(f"{where}: expected a whole number, found {value!r}")
    return value


def _share(where: str, value: object) -> int:
    """Ten-thousandths of a part between 0 and 1."""
    try:
        part = float(value) if isinstance(value, (str, float)) or type(value) is int else None
    except ValueError:
        part = None
    if part is None or not 0 <= part <= 1:
        raise DeclarationError(f"{where}: expected a number between 0 and 1, found {value!r}")
    return round(part * WHOLE_SHARE)


def _mark(where: str, value: object) -> bool:
    marks = {"true": True, "false": False, "1": True, "0": False}
    found = value if isinstance(value, bool) else marks.get(str(value).lower())
    if found is None:
        raise DeclarationError(f"{where}: expected true or false, found {value!r}")
    return found


def _known_keys(where: str, settings: Mapping[str, object], known: Sequence[str]) -> None:
    for key in settings:
        if key not in known:
            raise DeclarationError(f"{where}{key}: {_no_such(key, known)}")


def _no_such(name: str, known: Sequence[str], what: str = "key") -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known) or 'none'}"
    return f"there is no such {what}: {hint}"
