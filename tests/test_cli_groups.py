"""`kafka-assignors groups`, as far as it needs no cluster."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from kafka_assignors.arguments import UserError
from kafka_assignors.group import Topic
from kafka_assignors.group_json import parse_group
from kafka_assignors.strategies import Sticky
from kafka_assignors_cli import main
from kafka_assignors_cli.console import ProgressReport, note
from kafka_assignors_cli.looks import Looks, Snapshot, show
from kafka_assignors_ops.comparison import compare_strategies
from kafka_assignors_ops.groups_view import describe_json, description, group_list, summary_json
from kafka_assignors_ops.live_group import LiveGroup, LiveMember, as_group
from kafka_assignors_ops.troubles import Troubles

LIVE = LiveGroup(
    "g",
    "consumer",
    "Stable",
    "uniform",
    members=(
        LiveMember("a", "a", "127.0.0.1", assigned={"orders": [0, 1, 2]}),
        LiveMember("b", "b", "127.0.0.1", assigned={}),
    ),
    topics={"orders": Topic("orders", 3)},
)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["groups", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "give --bootstrap-server"),
        (["describe", "g"], "give --bootstrap-server"),
        (["describe"], "missing argument"),
        (["describe", "g", "--strategy", "rnge", "--bootstrap-server", "b:1"], "did you mean 'range'"),
        (["delete"], "either the ids of groups or --all-empty"),
        (["delete", "g", "--all-empty"], "either the ids of groups or --all-empty"),
        (["delete", "g", "--matching", "*"], "--matching: no effect without --all-empty"),
        (["--bootstrap-server", "b:1", "--command-config", "/nowhere/x"], "/nowhere/x: No such file"),
        (["--bootstrap-server", "b:1", "--interval", "soon"], "--interval"),
        (["--bootstrap-server", "b:1", "--interval", "1"], "--interval: no effect without --watch"),
        (
            ["describe", "g", "--bootstrap-server", "b:1", "--count", "1"],
            "--count: no effect without --watch",
        ),
        (["orders"], "to look at a group: kafka-assignors groups describe GROUP"),
    ],
)
def test_wrong_arguments_end_in_one_line(
    arguments: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert part in refusal(capsys, *arguments)


@pytest.mark.parametrize(
    "option", [["--matching", "old-*"], ["--json", "-"], ["--watch"], ["--interval", "1"], ["--count", "1"]]
)
@pytest.mark.parametrize("command", [["describe", "g"], ["delete", "--all-empty", "--yes"]])
def test_options_of_the_list_are_refused_before_a_subcommand(
    option: list[str], command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    error = refusal(capsys, "--bootstrap-server", "127.0.0.1:1", *option, *command)
    assert f"{option[0]}: no effect before the command: it belongs after" in error
    assert f"'kafka-assignors groups {command[0]}'" in error


@pytest.mark.parametrize("command", [(), ("describe",), ("delete",)])
def test_every_command_explains_itself_with_examples(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["groups", *command, "--help"]) == 0
    examples = capsys.readouterr().out.partition("Examples")[2]
    assert " ".join(["kafka-assignors groups", *command]) in examples


def test_without_the_admin_extra_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['confluent_kafka'] = None; from kafka_assignors_cli import main; "
        "sys.exit(main(['groups', '--bootstrap-server', 'b:1']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert 'pip install "kafka-assignors[cli,admin]"' in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("groups", "--help")])
def test_help_and_version_on_a_full_disk_are_one_line(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kafka_assignors_cli", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "kafka-assignors: error: cannot write to stdout: No space left on device\n"


def test_a_summary_counts_idle_members_and_the_imbalance() -> None:
    summary = summary_json(LIVE)
    assert (summary["members"], summary["idle"], summary["partitions"], summary["max_over_mean"]) == (
        2,
        1,
        3,
        2.0,
    )


def test_a_group_that_rebalances_has_no_figures_rather_than_wrong_ones() -> None:
    summary = summary_json(
        LiveGroup("g", "classic", "PreparingRebalance", members=(LiveMember("a", "a", "h"),))
    )
    assert (summary["members"], summary["idle"], summary["partitions"], summary["max_over_mean"]) == (
        1,
        None,
        None,
        None,
    )


def test_the_json_form_of_a_running_group_is_read_back_as_the_same_group() -> None:
    form = json.loads(
        json.dumps(describe_json(LIVE, compare_strategies(as_group(LIVE), [("sticky", Sticky())])))
    )
    assert parse_group(form) == as_group(LIVE)
    assert form["about"]["strategies"]["sticky"]["moved"] == form["about"]["least_moved"] == 1
    assert "KIP-848" in form["about"]["notes"][0]


def test_a_watch_survives_a_failure_but_not_at_first(capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter(["one", None, None, "two"])

    def read(_: ProgressReport) -> Snapshot:
        answer = next(answers)
        if answer is None:
            raise UserError("no answer from b:1")
        return Snapshot((), [answer])

    looks = Looks(0.01, 4, Path("-"))
    show(read, looks, Troubles(note))
    captured = capsys.readouterr()
    assert captured.out == '"one"\n"two"\n'
    assert captured.err == "kafka-assignors: no answer from b:1; trying again\n"

    def fail(_: ProgressReport) -> Snapshot:
        raise UserError("no answer from b:1")

    with pytest.raises(UserError):
        show(fail, looks, Troubles(note))


def test_a_watch_keeps_the_last_look_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter([["a", "b"], ["c"]])
    file = tmp_path / "groups.jsonl"
    show(lambda _: Snapshot([Text("as text")], next(answers)), Looks(0.01, 2, file), Troubles(note))
    assert file.read_text() == '"c"\n'
    assert capsys.readouterr().out == "as text\nas text\n"


def test_a_group_without_members_has_no_strategies_in_json() -> None:
    live = LiveGroup("g", "classic", "Empty", None, members=(), topics={})
    about = describe_json(live, compare_strategies(as_group(live), [("sticky", Sticky())]))["about"]
    assert about["members"] == 0
    assert not {"now", "least_moved", "strategies"} & set(about)


def text_of(*parts: object) -> str:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(*parts, sep="\n")
    return capture.get()


def test_a_name_of_any_length_fills_a_few_lines() -> None:
    group = dataclasses.replace(LIVE, id="n" * 3_000, problems=("something is not shown",))
    assert text_of(*group_list([group])).count("\n") < 25
    assert text_of(*description(group, compare_strategies(as_group(group), []))).count("\n") < 25


def test_partitions_that_do_not_exist_are_counted_apart() -> None:
    smaller = dataclasses.replace(LIVE, topics={"orders": Topic("orders", 2)})
    gone = dataclasses.replace(LIVE, topics={})
    hidden = dataclasses.replace(gone, hidden_topics=frozenset({"orders"}))
    assert [live.gone for live in (LIVE, smaller, gone, hidden)] == [0, 1, 3, 0]
    assert "3 partitions (1 do not exist)" in " ".join(text_of(*description(smaller, None)).split())
    assert "do not exist" not in text_of(*description(LIVE, None))


def test_bytes_that_do_not_decode_are_shown_with_their_sender() -> None:
    member = LiveMember("a", "a", "h").with_metadata(b"\xff").with_assignment(b"\0\0" + b"\x7f" * 19)
    live = LiveGroup("g", "classic", "Stable", members=(member,))
    said = " ".join(text_of(*description(live, None)).split())
    assert "bytes of 1 member do not decode, the first being 'a'" in said
    assert "the subscription it joined with (0xff): " in said
    assert f"the assignment that its leader sent (0x0000{'7f' * 14} and 5 more bytes): " in said
