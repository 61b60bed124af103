"""What `facetd load` shows of a file before it is loaded: its columns."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from coordinator.cli.commands import main
from coordinator.cli.loading import source_overview


def test_a_wide_table_is_shown_in_part(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(source_overview.COLUMNS_SHOWN + 50)]
    file = tmp_path / "wide.csv"
    file.write_text(f"{','.join(names)}\n{','.join('1' for _ in names)}\n")

    result = CliRunner().invoke(main, ["load", str(file), "--dry-run", "--port", "1"])

    assert result.exit_code == 0
    assert "… and 50 columns more" in result.stderr
    assert "c149" not in result.stderr
