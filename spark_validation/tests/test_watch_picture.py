"""The picture of `kafka-assignors watch` shows the state of the recorded history."""

from __future__ import annotations

from xml.etree import ElementTree

from tools.watch_picture import PICTURE, picture

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    """The words of the picture; their layout depends on the release of rich."""
    found = (text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text"))
    return " ".join(found).split()


def test_the_picture_is_of_the_table_as_it_is() -> None:
    shown = texts(PICTURE.read_text(encoding="utf-8"))
    assert shown == texts(picture()), "run: make watch-picture"
    assert "checkout" in shown
