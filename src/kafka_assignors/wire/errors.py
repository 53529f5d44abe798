"""The error that a codec raises, with the position in the bytes and in the schema."""

from __future__ import annotations


class ProtocolError(ValueError):
    """Bytes that do not follow their schema, or a value that its schema cannot carry.

    `field` is the path of the field, in the names of Kafka's schemas written the Python way
    (`owned_partitions[3].topic`), and `offset` the byte in the input, or in what was written so far, where
    that field goes wrong. `subject` says whose bytes they are.
    """

    def __init__(self, field: str, offset: int, problem: str, subject: str = "") -> None:
        super().__init__(field, offset, problem, subject)  # all of them, so that the error survives pickling
        self.field = field
        self.offset = offset
        self.problem = problem
        self.subject = subject

    def __str__(self) -> str:
        prefix = f"{self.subject}: " if self.subject else ""
        return f"{prefix}{self.field} at byte {self.offset}: {self.problem}"

    def of(self, subject: str) -> ProtocolError:
        """The same error, naming whose bytes they are."""
        return ProtocolError(self.field, self.offset, self.problem, subject)


class FieldPath:
    """The position of a reader or writer in nested arrays; it becomes text only when an error needs it."""

    __slots__ = ("_parent", "_subject", "_within")

    def __init__(self, subject: str, parent: str = "") -> None:
        self._subject = subject
        self._parent = (parent,) if parent else ()
        self._within: list[tuple[str, int]] = []

    def error(self, field: str, offset: int, problem: str) -> ProtocolError:
        """The error to raise for `field` of the array elements open now; "" is the element itself."""
        within = [f"{array}[{index}]" for array, index in self._within]
        path = ".".join(name for name in (*self._parent, *within, field) if name)
        return ProtocolError(path, offset, problem, self._subject)
