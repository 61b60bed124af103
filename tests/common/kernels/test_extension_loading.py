"""The extension: entries do what numba's own wrappers do; it knows what it was built from."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.kernels import extension_loading, source_digests
from common.kernels.extension_loading import KernelsMissing
from tests.common.kernels import sample_kernels as samples
from tests.common.kernels.built import MODULE, build, load
from tests.common.kernels.sample_kernels import Pair, Series
from tests.service import ROOT


@pytest.fixture(scope="module")
def image_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("extension") / "_samples.abi3.so"
    build(path)
    return path


@pytest.fixture(scope="module")
def image(image_path: Path) -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = load(image_path).load()
    return found


def entry(image: dict[str, Callable[..., Any]], function: Callable[..., Any]) -> Any:
    return image[f"{MODULE}.{function.__name__}"]


def test_a_signature_is_chosen_by_the_type_of_the_array(
    image: dict[str, Callable[..., Any]],
) -> None:
    add = entry(image, samples.total)
    assert add(np.array([250, 250], np.uint8)) == 500
    assert add(np.array([-(1 << 60), 1])) == 1 - (1 << 60)
    assert add(np.array([3, 4], np.longlong)) == 7
    assert add(np.frombuffer(np.array([1, 2], np.uint32).tobytes(), np.uint32)) == 3
    assert (add.__name__, add.__doc__, add.__module__) == ("total", "Add up.", MODULE)


@pytest.mark.parametrize(
    "argument",
    [
        np.zeros(4, np.float64),
        np.zeros(4, np.uint64),
        np.zeros(8, np.int64)[::2],
        np.zeros((2, 2), np.int64),
        np.zeros(4, ">i8"),
        np.frombuffer(bytes(17), np.int64, 2, 1),
        np.frombuffer(bytes(16), np.int64),  # read-only
        [1, 2],
        None,
        7,
    ],
    ids=["float", "sign", "strided", "2-d", "order", "unaligned", "read-only", "list", "none", "7"],
)
def test_what_was_not_compiled_for_is_refused(
    image: dict[str, Callable[..., Any]], argument: Any
) -> None:
    with pytest.raises(TypeError, match="total: the arguments fit none of its signatures"):
        entry(image, samples.total)(argument)


def test_wrong_numbers_of_arguments_are_refused(image: dict[str, Callable[..., Any]]) -> None:
    for arguments in ((), (np.zeros(1, np.int64), 1)):
        with pytest.raises(TypeError, match="total"):
            entry(image, samples.total)(*arguments)


def test_scalars_come_back_as_python_numbers(image: dict[str, Callable[..., Any]]) -> None:
    pass_through = entry(image, samples.scalars)
    given = (-5, (1 << 64) - 1, 255, -128, True, 0.1)
    assert pass_through(*given) == given
    assert [type(one) for one in pass_through(*given)] == [int, int, int, int, bool, float]
    numpy_given = (np.int64(-1), np.uint64(1 << 63), np.uint8(7), np.int8(-7), np.bool_(0), 3)
    assert pass_through(*numpy_given) == (-1, 1 << 63, 7, -7, False, 3.0)
    # -1 is also what Python's functions return for an error
    assert pass_through(-1, -1, -1, -1, False, -1.0) == (-1, (1 << 64) - 1, 255, -1, False, -1.0)


@pytest.mark.parametrize("place", range(6))
def test_objects_that_are_no_numbers_are_refused(
    image: dict[str, Callable[..., Any]], place: int
) -> None:
    class NoTruth:
        def __bool__(self) -> bool:
            raise TypeError("no truth")

    given: list[Any] = [1, 1, 1, 1, True, 1.0]
    given[place] = NoTruth()
    with pytest.raises(TypeError):
        entry(image, samples.scalars)(*given)


def test_arrays_are_written_in_place_and_not_kept(image: dict[str, Callable[..., Any]]) -> None:
    values = np.zeros(5, np.int64)
    references = sys.getrefcount(values)
    assert entry(image, samples.fill)(values, 3) is None
    assert values.tolist() == [3] * 5
    assert sys.getrefcount(values) == references


def test_rows_of_two_dimensions(image: dict[str, Callable[..., Any]]) -> None:
    assert entry(image, samples.corner)(np.arange(6.0).reshape(3, 2)) == 5.0


def test_arrays_that_a_kernel_makes_own_their_memory(image: dict[str, Callable[..., Any]]) -> None:
    flat, half, rows = entry(image, samples.ramps)(4)
    assert (flat.dtype, half.shape, rows.shape) == (np.int32, (2, 2), (4, 2))
    del rows  # the same memory as `half`
    entry(image, samples.ramps)(4)
    assert flat.tolist() == [0, 1, 2, 3]
    assert half.tolist() == [[0, 0], [0, 1]]
    flat[0] = 9
    assert flat.flags.c_contiguous


def test_memory_is_freed_with_the_last_array(image: dict[str, Callable[..., Any]]) -> None:
    make = entry(image, samples.ramps)
    make(1_000_000)
    before = _resident_bytes()
    for _ in range(50):
        make(1_000_000)  # 20 MB each time
    assert _resident_bytes() - before < 100_000_000


def test_arrays_may_live_until_the_process_ends(image_path: Path) -> None:
    """Their memory is freed by code of the extension, when all other objects may have gone."""
    program = f"""
import builtins, importlib.util

spec = importlib.util.spec_from_file_location("_samples", {str(image_path)!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
builtins.kept = module.load()[{MODULE + ".ramps"!r}](4)
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode == 0


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_sorting_needs_memory_of_its_own(image: dict[str, Callable[..., Any]]) -> None:
    values = np.random.default_rng(0).integers(0, 1000, 10_000)
    expected = np.sort(values)
    for _ in range(100):
        entry(image, samples.arrange)(values)
    assert np.array_equal(values, expected)


def test_an_argument_is_not_a_result(image: dict[str, Callable[..., Any]]) -> None:
    """It would be an array over memory that it does not own."""
    with pytest.raises(SystemError, match="returned one of its arguments"):
        entry(image, samples.same)(np.zeros(3, np.int64))


def series(offset: Any = -3, **changed: Any) -> Series:
    made = Series(np.array([0, 2, 5]), np.arange(5, dtype=np.uint8), np.ones((2, 2)) / 3, offset)
    return made._replace(**changed)


def test_a_group_is_its_members(image: dict[str, Callable[..., Any]]) -> None:
    assert entry(image, samples.weigh)(0.5, series(), 0) == 0.5 - 3 + 1 / 3
    assert entry(image, samples.weigh)(0.5, tuple(series()), 0) == 0.5 - 3 + 1 / 3
    values, offset = entry(image, samples.scaled)(series(offset=np.int64(1 << 40)), 100)
    assert (values.tolist(), offset) == ([0, 100, 200, 300, 400], 1 << 40)


def test_groups_give_what_they_give_with_numba(image: dict[str, Callable[..., Any]]) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        starts = np.sort(rng.integers(0, 1000, 20))
        values = rng.integers(0, 256, 1000, np.uint8)
        group = Series(starts, values, rng.random((20, 2)), int(rng.integers(-(1 << 63), 1 << 62)))
        for row in range(19):
            assert entry(image, samples.weigh)(0.25, group, row) == samples.weigh(0.25, group, row)
        (made, offset), (expected, same) = (
            entry(image, samples.scaled)(group, 7),
            samples.scaled(group, 7),
        )
        assert np.array_equal(made, expected)
        assert offset == same


def test_groups_may_be_of_groups(image: dict[str, Callable[..., Any]]) -> None:
    pair = Pair(series(), series(offset=100), np.zeros(7, np.int64))
    assert entry(image, samples.weigh_pair)(pair, 4) == 407
    for wrong in (
        pair._replace(left=series(starts=None)),
        pair._replace(right=series(values=None)),
    ):
        with pytest.raises(TypeError, match="weigh_pair"):
            entry(image, samples.weigh_pair)(wrong, 4)
    with pytest.raises(TypeError, match="weigh_pair"):
        entry(image, samples.weigh_pair)((*pair.left, *pair.right, pair.rest), 4)


@pytest.mark.parametrize(
    "argument",
    [
        series(starts=np.zeros(3, np.int32)),
        series(values=np.zeros((5, 1), np.uint8)),
        series(values=np.frombuffer(bytes(5), np.uint8)),
        series(factors=np.ones((2, 4))[:, ::2]),
        series(values=None),
        tuple(series())[:3],
        (*series(), 0),
        (),
        list(series()),
        np.zeros(4),
        None,
    ],
    ids=[
        "type",
        "2-d",
        "read-only",
        "strided",
        "none",
        "cut",
        "more",
        "empty",
        "list",
        "array",
        "no",
    ],
)
def test_what_is_not_just_the_group_is_refused(
    image: dict[str, Callable[..., Any]], argument: Any
) -> None:
    with pytest.raises(TypeError, match="weigh: the arguments fit none of its signatures"):
        entry(image, samples.weigh)(0.0, argument, 0)


def test_a_number_of_a_group_must_be_one(image: dict[str, Callable[..., Any]]) -> None:
    with pytest.raises(TypeError):
        entry(image, samples.weigh)(0.0, series(offset="3"), 0)


def test_groups_and_their_members_are_not_kept(image: dict[str, Callable[..., Any]]) -> None:
    group = series(offset=1 << 40)
    wrong = series(values=np.zeros(5, np.int8))
    objects = [group, *group, wrong, *wrong]
    before = [sys.getrefcount(one) for one in objects]
    add, make = entry(image, samples.weigh), entry(image, samples.scaled)
    for _ in range(1_000_000):
        add(0.0, group, 1)
    for _ in range(1_000):
        make(group, 2)
        with pytest.raises(TypeError):
            add(0.0, wrong, 1)
    assert [sys.getrefcount(one) for one in objects] == before


def test_a_member_is_not_a_result(image: dict[str, Callable[..., Any]]) -> None:
    with pytest.raises(SystemError, match="returned one of its arguments"):
        entry(image, samples.values_of)(series())


def test_other_threads_run_meanwhile(image: dict[str, Callable[..., Any]]) -> None:
    thread = threading.Thread(target=entry(image, samples.spin), args=(300_000_000,))
    thread.start()
    rounds = 0
    while thread.is_alive():
        time.sleep(0.001)
        rounds += 1
    assert rounds > 20


def test_a_checked_build_raises_where_an_index_is_past_the_end(tmp_path: Path) -> None:
    path = tmp_path / "_checked_samples.abi3.so"
    build(path, is_checked=True)
    checked = load(path).load()
    values = np.arange(3)
    assert entry(checked, samples.element)(values, 2) == 2
    assert entry(checked, samples.doubled)(values, 2) == 4
    for function in (samples.element, samples.doubled):
        with pytest.raises(IndexError, match=function.__name__):
            entry(checked, function)(values, 3)


def test_a_checked_build_raises_where_a_word_or_a_contract_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "_checked_words.abi3.so"
    build(path, is_checked=True, module="tests.common.kernels.checked_kernels")
    kernels = load(path).load()
    eight_bytes = kernels["tests.common.kernels.checked_kernels.eight_bytes"]
    first_of = kernels["tests.common.kernels.checked_kernels.first_of"]
    # Words of several bytes are loaded as one, and have to be within the array as a whole.
    data = np.arange(12, dtype=np.uint8)
    assert eight_bytes(data, 4) == int.from_bytes(range(4, 12), "little")
    for place in (5, 12, -1):
        with pytest.raises(IndexError, match="eight_bytes"):
            eight_bytes(data, place)
    assert first_of(np.array([1, 2, 9], np.uint32)) == 1
    for unordered in ([1, 3, 2], [1, 1]):
        with pytest.raises(IndexError, match="first_of"):
            first_of(np.array(unordered, np.uint32))
    first_of_sorted = kernels["tests.common.kernels.checked_kernels.first_of_sorted"]
    assert first_of_sorted(np.array([1, 1, 2], np.uint32)) == 1
    with pytest.raises(IndexError, match="first_of_sorted"):
        first_of_sorted(np.array([1, 3, 2], np.uint32))
    gallop_to = kernels["tests.common.kernels.checked_kernels.gallop_to"]
    assert gallop_to(np.array([1, 4, 4, 9], np.uint32), 4) == 1
    with pytest.raises(IndexError, match="gallop"):
        gallop_to(np.array([5, 1, 2, 3, 9], np.uint32), 8)


def test_an_extension_knows_the_sources_that_it_was_built_from(image_path: Path) -> None:
    table = source_digests.recorded(image_path)
    assert table is not None
    assert table["tests/common/kernels/sample_kernels.py"] == source_digests.digest(
        ROOT / "tests/common/kernels/sample_kernels.py"
    )
    assert not source_digests.is_current(image_path)  # it lacks the kernels of the packages
    assert source_digests.recorded(ROOT / "no such file") is None


def test_changed_and_added_kernels_make_an_extension_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in source_digests.PACKAGES:
        (tmp_path / package).mkdir()
    folder = tmp_path / "shard"
    (folder / "deep").mkdir()
    (folder / "kernels.py").write_text("\n@kernel\n")
    (folder / "other.py").write_text("def arguments(): ...\n")
    monkeypatch.setattr(source_digests, "ROOT", tmp_path)
    table = {"shard/kernels.py": source_digests.digest(folder / "kernels.py")}
    extension = tmp_path / "extension"
    extension.write_bytes(b"ELF" + source_digests.MARK + json.dumps(table).encode() + b"\0rest")
    assert source_digests.is_current(extension)
    (folder / "other.py").write_text("def parameters(): ...\n")
    assert source_digests.is_current(extension)
    for added in (folder / "groups.py", folder / "deep" / "groups.py"):
        added.write_text("\n@arguments\nclass Group: a: int\n")
        assert not source_digests.is_current(extension)
        added.unlink()
    (folder / "kernels.py").write_text("\n@kernel\n\n")
    assert not source_digests.is_current(extension)
    (folder / "kernels.py").write_text("\n@kernel\n")
    assert source_digests.is_current(extension)
    build = tmp_path / "common" / "kernels" / "build"
    build.mkdir(parents=True)
    for name in ("extension.c", "lazy_verification.h"):
        (build / name).write_text("")
        assert not source_digests.is_current(extension)
        (build / name).unlink()
    (folder / "kernels.py").unlink()
    assert not source_digests.is_current(extension)


def test_kernels_that_cannot_be_compiled_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(KernelsMissing, match=r"reinstall facetd, or .*facetd\[numba\]"):
        extension_loading.prepare(tmp_path / "_compiled.abi3.so")
