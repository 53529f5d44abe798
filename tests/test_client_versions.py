"""The release of a client, where there is one and where there is none."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from kafka_assignors.client_versions import installed_release


def test_the_distribution_says_which_release_is_installed() -> None:
    assert installed_release("pytest", "pytest") == version("pytest")


def test_a_copy_that_is_no_distribution_says_it_itself() -> None:
    assert installed_release("no-such-client", "pytest") == version("pytest")


def test_where_there_is_none_the_error_says_how_to_install_it() -> None:
    with pytest.raises(ImportError, match=r'pip install "kafka-assignors\[no-such-client\]"'):
        installed_release("no-such-client", "no_such_client")
