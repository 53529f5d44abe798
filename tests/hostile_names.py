"""Group, member and instance ids that a Kafka broker accepts and that attack the program that shows them."""

NAMES = {
    "a script": "<script>alert(1)</script>",
    "the end of a script": "</script><img src=x onerror=alert(2)>",
    "a link": "<a href='javascript:alert(3)'>\"&amp;{{ 7 * 7 }}%{x}</a>",
    "the end of a comment": "--><svg onload=alert(4)>",
    "the end of a style": "</style><iframe src=javascript:alert(5)>",
    "the end of an attribute": "' onmouseover='alert(6)' x=\"",
    "an entity": "&lt;b&gt;&#x1b;",
    "a template": "{{ config }}{% for x in y %}${7*7}",
    "another template": "%{customdata}<extra></extra><br>",
    "the end of JSON": '"},"x":[{"',
    "line separators of JavaScript": "a\u2028b\u2029c",
    "markup of rich": "[bold red]evil[/bold red][link=file:///etc/passwd]x[/link]",
    "an open bracket": "[/",
    "a colour": "\x1b[31mred",
    "a cleared screen": "\x1b[2J\x1b[H",
    "a title": "\x1b]0;title\x07",
    "a C1 escape": "\x9b31mred",
    "carriage returns": "payments\rorders",
    "backspaces": "safe\b\b\b\bevil",
    "lines": "a\nkafka-assignors: error: b",
    "a tab and a vertical tab": "a\tb\vc\fd",
    "a null": "a\x00b",
    "right to left": "\u202egpj.exe\u202c",
    "an isolate": "\u2067abc\u2069",
    "no width": "pay\u200bments\u200d\ufeff",
    "combining marks": "Z" + "\u0300\u0301\u0302" * 30,
    "wide": "支払い" * 20,
    "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 5,
    "a formula": "=cmd|' /C calc'!A0",
    "a path": "../../../../etc/passwd",
    "a flag": "--help",
    "a format": "%s%n%(x)s{0}{x!r}",
    "blank": " ",
    "long": "n" * 4000,
}
"""The names by what they contain."""


def assert_harmless(text: str) -> None:
    """Assert that the text has no characters that control a terminal or reorder text."""
    assert {one for one in text if not one.isprintable()} <= {"\n"}
