"""The picture of a rebalance: bars of delivery and pauses, as a self-contained SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from benchmarks.see_picture import Bar, Lane, bars, draw

S = 1_000_000_000


def test_a_gap_longer_than_the_limit_is_a_pause_before_the_next_owner() -> None:
    deliveries = [(0, 0, "a"), (S, 0, "b"), (int(1.2 * S), 0, "b")]
    assert bars(deliveries, 0, 1.3, pause_s=0.3) == [
        Bar(0, "a", 0.0, 0.0),
        Bar(0, "", 0.0, 1.0),
        Bar(0, "b", 1.0, 1.2),
    ]


def test_the_picture_has_a_rectangle_for_each_bar_and_escapes_titles() -> None:
    found = [Bar(0, "a", 0.0, 1.0), Bar(0, "", 1.0, 2.0)]
    lanes = [Lane("eager <a & b>", "1 pause", found), Lane("cooperative", "none", found[:1])]
    tree = ElementTree.fromstring(draw(lanes, [(1.0, "a member joins")], 2.0, 1, title="t", command="make x"))
    rectangles = tree.findall("{http://www.w3.org/2000/svg}rect")
    # The page, and for each lane its bars and the cover of the animation.
    assert len(rectangles) == 1 + (2 + 1) + (1 + 1)
    assert sum(each.get("class") == "pause" for each in rectangles) == 1
    assert "eager <a & b>" in {each.text for each in tree.iter("{http://www.w3.org/2000/svg}text")}
