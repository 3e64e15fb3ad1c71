"""The data folder admits one server, and keeps the operator's token whole or not at all."""

import resource
from pathlib import Path

import pytest

from circadia.errors import StartError
from circadia.server.folder import keep_admin_token, lock_folder, read_admin_token


def test_a_second_server_is_refused_though_somebody_has_removed_the_lock_file(tmp_path: Path) -> None:
    with lock_folder(tmp_path):
        (tmp_path / "lock").unlink()
        with pytest.raises(StartError, match="another Circadia server"), lock_folder(tmp_path):
            raise AssertionError("it has started")
    with lock_folder(tmp_path):
        pass


def test_a_token_that_cannot_be_written_whole_is_not_there(tmp_path: Path) -> None:
    """A disk that is full, or a kill, between the making of the file and its content would leave an empty token."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(StartError, match="cannot write"):
            keep_admin_token(tmp_path, "circadia-admin-0123456789")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert read_admin_token(tmp_path) is None
    keep_admin_token(tmp_path, "circadia-admin-0123456789")
    assert read_admin_token(tmp_path) == "circadia-admin-0123456789"
    assert [path.name for path in tmp_path.iterdir()] == ["admin.token"]
