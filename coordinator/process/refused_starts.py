"""What a start is refused for before anything is made or started.

The processes find the same, each for itself; but by then shards have opened their data, which may
have taken minutes, and the reason is one of many lines.
"""

from __future__ import annotations

from common import data_directory
from common.data_directory import DataDirectoryError
from coordinator.http.libraries_of_traces import check_installed
from coordinator.http.security.listening_without_api_keys import check_stored_keys
from coordinator.settings import Settings


def check_start(settings: Settings) -> None:
    """Refuse settings that this installation or the data directory cannot do with.

    Raises:
        SettingError: traces need libraries that are not installed.
        DataDirectoryError: the data are those of several hosts, or the catalog cannot be read.
        UnsafeAddress: everyone on the network could do anything.
    """
    if settings.traces:
        check_installed()
    check_log(settings)
    if settings.is_exposed and not settings.log_url:  # where there is a log, a key may come with it
        check_stored_keys(settings)


def check_log(settings: Settings) -> None:
    """Refuse to start with the data of several hosts as if they were those of one.

    Raises:
        DataDirectoryError: the settings name no log.
    """
    data = settings.data_dir
    if settings.log_url:
        return
    if data_directory.placement_path(data).exists():
        raise DataDirectoryError(
            f"{data} has some of the shards that several hosts hold together: start "
            "with --log, --shards-here and --of"
        )
    if data_directory.replica_path(data).exists():
        raise DataDirectoryError(
            f"{data} follows the log of several hosts: start with --log, or, to go on "
            "with this host alone, remove replica.json from it"
        )
