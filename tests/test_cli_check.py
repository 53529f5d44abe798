"""`kafka-assignors check`: verdicts on assignments, computed by us or by other programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors_cli import main

GROUP: dict[str, Any] = {
    "topics": {"orders": {"partitions": 4}, "payments": {"partitions": 2}},
    "members": [
        {"id": "m1", "topics": ["orders"]},
        {"id": "m2", "topics": ["orders", "payments"]},
        {"id": "m3", "topics": ["payments"]},
    ],
}
FAIR: dict[str, Any] = {"m1": {"orders": [0, 1]}, "m2": {"orders": [2, 3]}, "m3": {"payments": [0, 1]}}
LOPSIDED = {"m1": {"orders": [0, 1, 2]}, "m2": {"orders": [3], "payments": [0]}, "m3": {"payments": [1]}}
PROOF: dict[str, Any] = {
    "criteria": ["balance", "movement", "racks"],
    "prices": {"m1": [5, 0, 0], "m2": [5, 0, 0], "m3": [5, 0, 0]},
}
WRONG = {**PROOF, "prices": {**PROOF["prices"], "m2": [4, 0, 0]}}

Check = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """A function that runs the command on JSON lines, and returns its exit code, verdicts and stderr."""

    def run(*values: Any, options: tuple[str, ...] = ()) -> tuple[int, list[dict[str, Any]], str]:
        files = []
        for name, value in zip(("group", "assignment", "certificate"), values, strict=False):
            lines = value if isinstance(value, list) else [value]
            file = tmp_path / f"{name}.json"
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
            files.append(str(file))
        code = main(["check", *files, *options])
        out, err = capsys.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], err

    return run


def test_the_best_assignment_is_proven_to_be_it(check: Check) -> None:
    assert check(GROUP, FAIR) == (0, [{"optimal": True, "certificate": PROOF}], "")
    assert check(GROUP, FAIR, PROOF) == (0, [{"optimal": True, "certificate": PROOF}], "")


def test_an_assignment_that_is_not_the_best_is_refused_with_what_would_be_better(check: Check) -> None:
    code, [verdict], _ = check(GROUP, LOPSIDED)
    assert code == 1
    assert verdict == {
        "optimal": False,
        "improvement": {
            "change": {"balance": -2, "movement": 0, "racks": 0},
            "steps": [
                {"topic": "orders", "partition": 0, "from": "m1", "to": "m2"},
                {"topic": "payments", "partition": 0, "from": "m2", "to": "m3"},
            ],
        },
    }


def test_a_wrong_certificate_is_refused_be_the_assignment_the_best_or_not(check: Check) -> None:
    code, [verdict], _ = check(GROUP, FAIR, WRONG)
    assert code == 1
    assert verdict["optimal"]
    assert verdict["refused"].endswith("costs 5/0/0 at 'm1', where it is, and 4/0/0 at 'm2'")
    code, [verdict], _ = check(GROUP, LOPSIDED, PROOF)
    assert code == 1
    assert not verdict["optimal"]
    assert "the price of" in verdict["refused"] or "costs" in verdict["refused"]
    assert verdict["improvement"]["change"]["balance"] == -2


def test_the_output_of_assign_is_checked_with_its_certificate(
    check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "asked.json").write_text(json.dumps(GROUP))
    assert main(["assign", str(tmp_path / "asked.json"), "--certify"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert check(GROUP, answer)[:2] == (0, [{"optimal": True, "certificate": answer["certificate"]}])
    answer["certificate"]["prices"]["m3"] = [1, 0, 0]
    assert check(GROUP, answer)[0] == 1


def test_many_groups_are_judged_line_by_line(check: Check) -> None:
    code, verdicts, _ = check([GROUP, GROUP], [FAIR, LOPSIDED])
    assert code == 1
    assert [verdict["optimal"] for verdict in verdicts] == [True, False]


def test_the_criteria_decide_what_is_best(check: Check) -> None:
    racks = [["a"], ["a"], ["b"], ["b"]]
    group = {
        "topics": {"orders": {"partitions": 4, "replica_racks": racks}},
        "members": [
            {"id": "m1", "topics": ["orders"], "rack": "a", "owned": {"orders": [2, 3]}, "generation": 1},
            {"id": "m2", "topics": ["orders"], "rack": "b", "owned": {"orders": [0, 1]}, "generation": 1},
        ],
    }
    stays = {"m1": {"orders": [2, 3]}, "m2": {"orders": [0, 1]}}
    assert check(group, stays)[0] == 0
    code, [verdict], _ = check(group, stays, options=("--criteria", "balance,racks,movement"))
    assert code == 1
    assert verdict["improvement"]["change"] == {"balance": 0, "racks": -2, "movement": 2}
    assert check(group, stays, options=("--criteria", "balance,trade=1,movement"))[0] == 0
    code, [verdict], _ = check(group, stays, options=("--criteria", "balance,trade=3/2,movement"))
    assert code == 1
    assert verdict["improvement"]["change"] == {"balance": 0, "trade=3/2": -2, "movement": 2}


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ((GROUP, {**FAIR, "m3": {}}), (), "assignment.json:1: this is no assignment of the group: "),
        ((GROUP, {"m1": {"orders": ["0"]}}), (), "assignment.json:1: m1.orders[0]: expected an integer"),
        (([GROUP, GROUP], FAIR), (), "group.json has more in it than "),
        ((GROUP, [FAIR, FAIR]), (), "assignment.json has more in it than "),
        ((GROUP, FAIR, {"prices": {}}), (), "certificate.json:1: criteria: is missing"),
        ((GROUP, FAIR, {**PROOF, "criteria": ["speed"]}), (), "criteria: 'speed' is no criterion: they are "),
        (([GROUP, GROUP], [FAIR, FAIR], PROOF), (), "there is no certificate for "),
        ((GROUP, FAIR), ("--criteria", "racks"), "--criteria racks: criteria must begin with balance"),
        ((GROUP,), ("nowhere.json",), "nowhere.json: No such file"),
    ],
)
def test_input_that_cannot_be_checked_is_refused_in_one_line(
    check: Check, values: tuple[Any, ...], options: tuple[str, ...], message: str
) -> None:
    code, _, err = check(*values, options=options)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_a_certificate_of_a_reduced_group_can_be_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "joins.toml").write_text(
        'name = "joins"\n[[rule]]\nkind = "together"\ntopics = [["a", "b"]]\n[[rule]]\nkind = "balance"\n'
    )
    members = [
        {"id": "m1", "topics": ["a", "b"], "owned": {"a": [0], "b": [0, 1]}},
        {"id": "m2", "topics": ["a", "b"]},
    ]
    group = {"topics": {"a": {"partitions": 2}, "b": {"partitions": 2}}, "members": members}
    (tmp_path / "group.json").write_text(json.dumps(group))
    asked = [
        str(tmp_path / "group.json"),
        "--strategy",
        str(tmp_path / "joins.toml"),
        "--certify",
        "--explain",
    ]
    assert main(["assign", *asked]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert "certificate" not in answer
    assert answer["explanation"]["moves"] == [
        {"topic": "a", "partition": 1, "from": None, "to": "m2", "reason": "no-owner"},
        {"topic": "b", "partition": 1, "from": "m1", "to": "m2", "reason": "balance", "chain": 0},
    ]
    reduced = answer["reduced"]
    assert reduced["kept"] == ["together"]
    (tmp_path / "reduced.json").write_text(json.dumps(reduced["group"]))
    (tmp_path / "answer.json").write_text(json.dumps(reduced))
    assert main(["check", str(tmp_path / "reduced.json"), str(tmp_path / "answer.json")]) == 0
    assert json.loads(capsys.readouterr().out)["optimal"] is True
