"""The data folder admits one server."""

from pathlib import Path

import pytest

from circadia.errors import StartError
from circadia.server.folder import lock_folder


def test_a_second_server_is_refused_though_somebody_has_removed_the_lock_file(tmp_path: Path) -> None:
    with lock_folder(tmp_path):
        (tmp_path / "lock").unlink()
        with pytest.raises(StartError, match="another Circadia server"), lock_folder(tmp_path):
            raise AssertionError("it has started")
    with lock_folder(tmp_path):
        pass
