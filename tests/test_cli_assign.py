"""`kafka-assignors assign`: groups in, assignments out, and errors that name line and field."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafka_assignors.claims import NAMED_PARTITIONS
from tests.test_cli import assert_one_error, run_here, without_progress

MOVING: dict[str, Any] = {
    "topics": {"orders": {"partitions": 3}},
    "members": [
        {"id": "m1", "topics": ["orders"], "owned": {"orders": [0, 1, 2]}, "generation": 7},
        {"id": "m2", "topics": ["orders"]},
    ],
}
EMPTY = '{"topics": {}, "members": []}'

STRATEGIES_OF_OTHERS = """
from kafka_assignors.group import Assignment
from kafka_assignors.strategies import RoundRobin

class Greedy(RoundRobin):
    name = "mine"
    def assign(self, group):
        first = min(group.members)
        everything = {name: range(topic.partitions) for name, topic in group.topics.items()}
        return Assignment({member: everything if member == first else {} for member in group.members})
"""


class Outcome(NamedTuple):
    """The result of one run of the command."""

    code: int
    lines: list[dict[str, Any]]
    err: str


Assign = Callable[..., Outcome]


@pytest.fixture
def assign(monkeypatch: pytest.MonkeyPatch) -> Assign:
    def run(given: str | bytes | dict[str, Any], *options: str) -> Outcome:
        text = json.dumps(given) if isinstance(given, dict) else given
        data = text.encode() if isinstance(text, str) else text
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code, out, err = run_here("assign", "-", *options)
        return Outcome(code, [*map(json.loads, out.splitlines())], without_progress(err))

    return run


@pytest.fixture
def others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a strategy file in the current directory, which is not on the module search path."""
    name = "strategies_of_others.py"
    (tmp_path / name).write_text(STRATEGIES_OF_OTHERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setenv("PYTHONPATH", "")
    return name


def test_the_answer_is_the_target_its_quality_and_what_waits(assign: Assign) -> None:
    outcome = assign(MOVING)
    assert (outcome.code, outcome.err) == (0, "")
    [answer] = outcome.lines
    assert answer["assignment"] == {"m1": {"orders": [0, 1]}, "m2": {"orders": [2]}}
    assert answer["withheld"] == {"m2": {"orders": [2]}}
    quality = answer["quality"]
    assert (quality["moved"], quality["kept"], quality["max_load"]) == (1, 2, 2)
    assert "loads" not in answer


@pytest.mark.parametrize("options", [("--protocol", "eager"), ("--strategy", "range")])
def test_under_the_eager_protocol_nothing_waits(options: tuple[str, str], assign: Assign) -> None:
    [answer] = assign(MOVING, *options).lines
    assert "withheld" not in answer


@pytest.mark.parametrize(
    ("claim", "count", "listed"),
    [
        ({"generation": 2**31 - 1}, 3, 3),
        ({"owned": {"orders": [-7, *range(1000, 2000)]}}, 1001, NAMED_PARTITIONS),
    ],
)
def test_of_claims_that_do_not_count_the_first_are_listed_and_all_are_counted(
    claim: dict[str, Any], count: int, listed: int, assign: Assign
) -> None:
    first, second = MOVING["members"]
    [answer] = assign({**MOVING, "generation": 8, "members": [{**first, **claim}, second]}).lines
    [dropped] = answer["dropped_claims"]
    assert (dropped["member_id"], dropped["count"], len(dropped["partitions"])) == ("m1", count, listed)


def test_an_object_over_many_lines_is_one_group(tmp_path: Path) -> None:
    file = tmp_path / "group.json"
    file.write_text("\ufeff\n" + json.dumps(MOVING, indent=2), encoding="utf-8")
    _, out, _ = run_here("assign", file)
    assert out.count("\n") == 1


def test_a_strategy_in_a_file_runs_and_leaves_no_compiled_copy(
    assign: Assign, others: str, tmp_path: Path
) -> None:
    for file in (others, f"./{others}", str(tmp_path / others)):
        [answer] = assign(MOVING, "--strategy", f"{file}:Greedy").lines
        assert answer["assignment"] == {"m1": {"orders": [0, 1, 2]}, "m2": {}}
    assert [path.name for path in tmp_path.iterdir()] == [others]


HOSTILE = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n"


def run_isolated(strategy: str) -> subprocess.CompletedProcess[str]:
    """Run `assign` as an installed command: its module search path lacks the current directory."""
    code = "import sys; from kafka_assignors_cli import main; sys.exit(main())"
    command = [sys.executable, "-I", "-c", code, "assign", "-", "--strategy", strategy]
    return subprocess.run(
        command, input=json.dumps(MOVING), capture_output=True, text=True, timeout=120, check=False
    )


def test_a_strategy_in_a_file_can_import_the_files_beside_it_which_hide_no_other_module(
    others: str, tmp_path: Path
) -> None:
    strategies = tmp_path / others
    strategies.write_text(f"import sched\nimport json\nimport sibling\n{strategies.read_text()}")
    # `json` is already imported when the file runs, `sched` is not, and `sibling` exists only in the folder.
    for name in ("json", "sched", "sibling"):
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    done = run_isolated(f"{others}:Greedy")
    assert (done.returncode, without_progress(done.stderr)) == (0, "")
    assert [path.name for path in tmp_path.glob("*.ran")] == ["sibling.ran"]


def test_a_module_of_the_current_directory_is_not_imported(others: str, tmp_path: Path) -> None:
    (tmp_path / "hostile.py").write_text(HOSTILE)
    done = run_isolated("hostile:Greedy")
    assert done.returncode == 2
    assert "there is no module 'hostile'" in done.stderr
    assert list(tmp_path.glob("*.ran")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "mine.py cannot be read: No such file or directory"),
        ("class Mines: pass", "'mine.py' has no 'Mine': did you mean 'Mines'?"),
        ("class Mine: pass", "is not a strategy: it does not derive from kafka_assignors.strategies"),
        ("x = 1\ndef Mine(:\n", "mine.py:2: not Python: invalid syntax"),
        ("raise KeyError('first\\nsecond')", "mine.py: it fails when it runs: KeyError: "),
        ("a\0b", "mine.py cannot be read: not a text file: it has a zero byte"),
        ("x = " + "(" * 500 + ")" * 500, "mine.py:1: not Python: too many nested parentheses"),
    ],
)
def test_a_file_without_the_strategy_is_refused_in_one_line(
    assign: Assign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    outcome = assign(MOVING, "--strategy", "mine.py:Mine")
    refused(outcome, "")
    assert outcome.lines == []
    assert message in outcome.err


NEVER_SETTLES = """
from kafka_assignors.group import Assignment
from kafka_assignors.strategies import RoundRobin

class Restless(RoundRobin):  # Gives the partitions of each member to the next one.
    name = "restless"
    def assign(self, group):
        ids = sorted(group.members)
        given = {member: {} for member in ids}
        for place, member in enumerate(ids):
            for topic, partitions in group.members[member].owned.items():
                given[ids[(place + 1) % len(ids)]][topic] = list(partitions)
        return Assignment(given)
"""


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_settle_says_that_a_second_run_moves_nothing(assign: Assign, strategy: str) -> None:
    outcome = assign(MOVING, "--strategy", strategy, "--settle")
    assert outcome.code == 0
    assert outcome.lines[0]["settle"] == {"settled": True, "moves": []}


def test_settle_names_the_moves_of_a_strategy_that_never_settles_and_exits_with_1(
    assign: Assign, tmp_path: Path
) -> None:
    (tmp_path / "restless.py").write_text(NEVER_SETTLES)
    outcome = assign(MOVING, "--strategy", f"{tmp_path / 'restless.py'}:Restless", "--settle")
    assert outcome.code == 1
    moves = [{"topic": "orders", "partition": n, "from": "m2", "to": "m1"} for n in range(3)]
    assert outcome.lines[0]["settle"] == {"settled": False, "moves": moves}


def refused(outcome: Outcome, message: str) -> None:
    assert outcome.code == 2
    assert_one_error(outcome.err, f"kafka-assignors: error: {message}")


# The columns are those of Python's reader, which differ between its versions after a comma.
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "stdin: there is no group in it, it is empty"),
        ("hello", "stdin:1: not JSON at column 1"),
        ("[1, 2]", "stdin:1: expected an object, found an array"),
        ('{\n"topics": {\n"orders": {"partitions" 3}}}', "stdin:3: not JSON at column 25"),
        (f"{EMPTY}\n{EMPTY[:-1]}\n", "stdin:2: not JSON at column 29"),
        (f"{EMPTY}\n\n{EMPTY} {EMPTY}\n", "stdin:3: there is more after the end of the group"),
        (f'{EMPTY[:-1]},\n"topics": {{}}}}', "stdin:1: topics: appears twice"),
        ('{"topics":\n{"a": {"partitions": NaN}}}', "stdin:1: topics.a.partitions: not JSON: NaN"),
        (f'{EMPTY}\n{{"topics": {{}}}}', "stdin:2: members: is missing"),
        ("[" * 100_000, "stdin:1: not a group: it is nested too deeply"),
        (
            '{"topics": {},\n"generation": 1' + "0" * 5000 + "}",
            "stdin:1: generation: a number of thousands of",
        ),
        (b'{"topics": {"\xff": {}}}', "stdin:1: not UTF-8: invalid start byte at byte 14 of the line"),
    ],
)
def test_malformed_input_is_told_by_the_line_of_the_group_and_the_field(
    assign: Assign, text: str | bytes, message: str
) -> None:
    refused(assign(text), message)


@pytest.mark.timeout(120)  # It is minutes of work to count every key among all.
def test_a_key_that_appears_twice_among_many_is_found(assign: Assign) -> None:
    topics = ",".join(f'"t{number}": {{"partitions": 1}}' for number in (*range(150_000), 149_999))
    refused(assign(f'{{"topics": {{{topics}}}, "members": []}}'), "stdin:1: topics.t149999: appears twice")


def test_groups_before_a_bad_line_are_answered(assign: Assign) -> None:
    outcome = assign(f"{EMPTY}\n{EMPTY}\nnonsense\n{EMPTY}")
    assert (outcome.code, len(outcome.lines)) == (2, 2)


def test_groups_without_members_are_answered_and_noted(assign: Assign) -> None:
    outcome = assign(f"{json.dumps(MOVING)}\n{EMPTY}\n{EMPTY}\n")
    assert (outcome.code, len(outcome.lines)) == (0, 3)
    assert outcome.err.count("\n") == 1
    assert "stdin:2: the group has no members" in outcome.err
    assert "(1 more like it)" in outcome.err


def members_of(*topics: str) -> dict[str, Any]:
    return {"topics": {"orders": {"partitions": 3}}, "members": [{"id": "m1", "topics": [*topics]}]}


@pytest.mark.parametrize(
    ("group", "named"),
    [
        (members_of("orders", "ordres"), "'ordres'"),
        ({**members_of("orders"), "topics": {"orders": {"partitions": 0}}}, "'orders'"),
        (members_of(*(f"t{number:03}" for number in range(100))), "'t000', 't001', 't002' and 97 more"),
        (members_of(), "no member subscribes to a topic"),
    ],
)
def test_topics_without_partitions_are_named(assign: Assign, group: dict[str, Any], named: str) -> None:
    outcome = assign(group)
    assert (outcome.code, len(outcome.lines)) == (0, 1)
    assert outcome.err.startswith("kafka-assignors: stdin:1: ")
    assert named in outcome.err
    assert outcome.err.count("\n") == 1


def test_the_example_of_weights_in_the_documentation_is_what_comes_out(assign: Assign) -> None:
    page = (Path(__file__).parents[1] / "docs" / "weighted.md").read_text()
    group = page.split("```json\n")[1].split("```")[0]
    loads = assign(group, "--strategy", "weighted").lines[0]["loads"]
    assert (loads["makespan"], loads["lower_bound"], loads["ratio"]) == (52000, 52000, 1.0)
    other = assign(group, "--strategy", "cooperative-sticky").lines[0]["loads"]
    assert (other["makespan"], other["unknown_weights"]) == (73000, 1)


def test_what_a_strategy_finds_is_in_the_answer(assign: Assign) -> None:
    [answer] = assign(MOVING, "--strategy", "capacity").lines
    assert "2 of 2 members announce no capacity" in answer["findings"][0]
