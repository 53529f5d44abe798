"""A call that may take its time, beside everything else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

__all__ = ["ask_in_thread"]


def ask_in_thread(
    function: Callable[..., Any], *arguments: Any, name: str = "kafka-assignors-weights"
) -> Future[Any]:
    """Call it in a thread of its own: not one of a pool, whose threads it might occupy for good.

    The thread does not keep the process from ending, and cancelling the future does not stop it.
    """
    answer: Future[Any] = Future()
    answer.set_running_or_notify_cancel()

    def call() -> None:
        try:
            answer.set_result(function(*arguments))
        except BaseException as error:  # Whatever it is: somebody waits for it.
            answer.set_exception(error)

    threading.Thread(target=call, name=name, daemon=True).start()
    return answer
