"""Kernel images: entries do what numba's own wrappers do, and what is not whole is not run."""

from __future__ import annotations

import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
import pytest

from common.kernels import decorator as kernels
from common.kernels.build.entries import CannotEnter, compile_all
from common.kernels.build.linker import CannotLink, link
from common.kernels.image import DamagedImage, KernelImage

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="images are made for x86-64 only"
)


@kernels.arguments
class Series(NamedTuple):
    starts: NDArray[np.int64]
    values: NDArray[np.uint8]
    factors: kernels.Rows[np.float64]
    offset: int


@kernels.arguments
class Pair(NamedTuple):
    left: Series
    right: Series
    rest: NDArray[np.int64]


def total(values: Any) -> Any:
    """Add up."""
    result = 0
    for value in values:
        result += value
    return result


def scalars(signed: Any, unsigned: Any, small: Any, tiny: Any, flag: Any, real: Any) -> Any:
    return signed, unsigned, small, tiny, flag, real


def fill(values: Any, value: Any) -> None:
    values[:] = value


def ramps(count: Any) -> Any:
    flat = np.empty(count, np.int32)
    rows = np.zeros((count, 2))
    for i in range(count):
        flat[i] = i
        rows[i, 1] = i
    return flat, rows[: count // 2], rows


def corner(rows: Any) -> Any:
    return rows[len(rows) - 1, rows.shape[1] - 1]


def arrange(values: Any) -> None:
    values.sort()


def same(values: Any) -> Any:
    return values


def spin(count: Any) -> Any:
    state = 1
    for _ in range(count):
        state = (state * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return state


def weigh(before: Any, series: Any, row: Any) -> Any:
    result = before + series.offset
    for i in range(series.starts[row], series.starts[row + 1]):
        result += series.values[i] * series.factors[row, 1]
    return result


def scaled(series: Any, factor: Any) -> Any:
    result = np.empty(len(series.values), np.int64)
    for i in range(len(result)):
        result[i] = series.values[i] * factor
    return result, series.offset


def weigh_pair(pair: Any, row: Any) -> Any:
    return pair.left.values[row] * pair.right.offset + len(pair.rest)


def values_of(series: Any) -> Any:
    return series.values


def listed(count: Any) -> Any:
    return [-i for i in range(count)]


READ_ONLY = numba.types.Array(numba.types.uint32, 1, "C", readonly=True)
SERIES = kernels.group_type(Series)
KERNELS: dict[Callable[..., Any], Any] = {
    total: ["int64(uint8[::1])", "int64(int64[::1])", numba.types.int64(READ_ONLY)],
    scalars: "(int64, uint64, uint8, int8, boolean, float64)",
    fill: "void(int64[::1], int64)",
    ramps: "(int64,)",
    corner: "float64(float64[:, ::1])",
    arrange: "void(int64[::1])",
    same: "int64[::1](int64[::1])",
    spin: "int64(int64)",
    weigh: numba.types.float64(numba.types.float64, SERIES, numba.types.int64),
    scaled: (SERIES, numba.types.int64),
    values_of: (SERIES,),
    weigh_pair: numba.types.int64(kernels.group_type(Pair), numba.types.int64),
}


def compiled(function: Callable[..., Any], signature: Any) -> Any:
    return numba.njit(signature, nogil=True, error_model="numpy")(function)


@pytest.fixture(scope="module")
def image_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dispatchers = {
        f"{function.__module__}.{function.__qualname__}": compiled(function, signature)
        for function, signature in KERNELS.items()
    }
    path = tmp_path_factory.mktemp("image") / "image"
    path.write_bytes(link(*compile_all(dispatchers)))
    return path


@pytest.fixture(scope="module")
def image(image_path: Path) -> KernelImage:
    return KernelImage(image_path)


def entry(image: KernelImage, function: Callable[..., Any]) -> Callable[..., Any]:
    found = image.function(function)
    assert found is not None
    return found


def test_a_signature_is_chosen_by_the_type_of_the_array(image: KernelImage) -> None:
    add = entry(image, total)
    assert add(np.array([250, 250], np.uint8)) == 500
    assert add(np.array([-(1 << 60), 1])) == 1 - (1 << 60)
    assert add(np.array([3, 4], np.longlong)) == 7
    assert add(np.frombuffer(np.array([1, 2], np.uint32).tobytes(), np.uint32)) == 3
    assert (add.__name__, add.__doc__, add.__module__) == ("total", "Add up.", __name__)


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
def test_what_was_not_compiled_for_is_refused(image: KernelImage, argument: Any) -> None:
    with pytest.raises(TypeError, match="total: the arguments fit none of its signatures"):
        entry(image, total)(argument)


def test_wrong_numbers_of_arguments_are_refused(image: KernelImage) -> None:
    for arguments in ((), (np.zeros(1, np.int64), 1)):
        with pytest.raises(TypeError, match="total"):
            entry(image, total)(*arguments)


def test_scalars_come_back_as_python_numbers(image: KernelImage) -> None:
    pass_through = entry(image, scalars)
    given = (-5, (1 << 64) - 1, 255, -128, True, 0.1)
    assert pass_through(*given) == given
    assert [type(one) for one in pass_through(*given)] == [int, int, int, int, bool, float]
    numpy_given = (np.int64(-1), np.uint64(1 << 63), np.uint8(7), np.int8(-7), np.bool_(0), 3)
    assert pass_through(*numpy_given) == (-1, 1 << 63, 7, -7, False, 3.0)
    # -1 is also what Python's functions return for an error
    assert pass_through(-1, -1, -1, -1, False, -1.0) == (-1, (1 << 64) - 1, 255, -1, False, -1.0)


@pytest.mark.parametrize("place", range(6))
def test_objects_that_are_no_numbers_are_refused(image: KernelImage, place: int) -> None:
    class NoTruth:
        def __bool__(self) -> bool:
            raise TypeError("no truth")

    given: list[Any] = [1, 1, 1, 1, True, 1.0]
    given[place] = NoTruth()
    with pytest.raises(TypeError):
        entry(image, scalars)(*given)


def test_arrays_are_written_in_place_and_not_kept(image: KernelImage) -> None:
    values = np.zeros(5, np.int64)
    references = sys.getrefcount(values)
    assert entry(image, fill)(values, 3) is None
    assert values.tolist() == [3] * 5
    assert sys.getrefcount(values) == references


def test_rows_of_two_dimensions(image: KernelImage) -> None:
    assert entry(image, corner)(np.arange(6.0).reshape(3, 2)) == 5.0


def test_arrays_that_a_kernel_makes_own_their_memory(image: KernelImage) -> None:
    flat, half, rows = entry(image, ramps)(4)
    assert (flat.dtype, half.shape, rows.shape) == (np.int32, (2, 2), (4, 2))
    del rows  # the same memory as `half`
    entry(image, ramps)(4)
    assert flat.tolist() == [0, 1, 2, 3]
    assert half.tolist() == [[0, 0], [0, 1]]
    flat[0] = 9
    assert flat.flags.c_contiguous


def test_memory_is_freed_with_the_last_array(image: KernelImage) -> None:
    make = entry(image, ramps)
    make(1_000_000)
    before = _resident_bytes()
    for _ in range(50):
        make(1_000_000)  # 20 MB each time
    assert _resident_bytes() - before < 100_000_000


def test_arrays_may_live_until_the_process_ends(image_path: Path) -> None:
    """Their memory is freed by code of the image, when all of its Python objects may have gone."""
    program = f"""
import builtins
from pathlib import Path
from common.kernels.image import KernelImage

def ramps(count): ...

ramps.__module__ = {ramps.__module__!r}
builtins.kept = KernelImage(Path({str(image_path)!r})).function(ramps)(4)
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode == 0


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_sorting_needs_memory_of_its_own(image: KernelImage) -> None:
    values = np.random.default_rng(0).integers(0, 1000, 10_000)
    expected = np.sort(values)
    for _ in range(100):
        entry(image, arrange)(values)
    assert np.array_equal(values, expected)


def test_an_argument_is_not_a_result(image: KernelImage) -> None:
    """It would be an array over memory that somebody else owns."""
    with pytest.raises(SystemError, match="returned one of its arguments"):
        entry(image, same)(np.zeros(3, np.int64))


def series(offset: Any = -3, **changed: Any) -> Series:
    made = Series(np.array([0, 2, 5]), np.arange(5, dtype=np.uint8), np.ones((2, 2)) / 3, offset)
    return made._replace(**changed)


def test_a_group_is_its_members(image: KernelImage) -> None:
    assert entry(image, weigh)(0.5, series(), 0) == 0.5 - 3 + 1 / 3
    assert entry(image, weigh)(0.5, tuple(series()), 0) == 0.5 - 3 + 1 / 3
    values, offset = entry(image, scaled)(series(offset=np.int64(1 << 40)), 100)
    assert (values.tolist(), offset) == ([0, 100, 200, 300, 400], 1 << 40)


def test_groups_give_what_they_give_with_numba(image: KernelImage) -> None:
    weigh_with_numba = compiled(weigh, KERNELS[weigh])
    scale_with_numba = compiled(scaled, KERNELS[scaled])
    rng = np.random.default_rng(0)
    for _ in range(50):
        starts = np.sort(rng.integers(0, 1000, 20))
        values = rng.integers(0, 256, 1000, np.uint8)
        group = Series(starts, values, rng.random((20, 2)), int(rng.integers(-(1 << 63), 1 << 62)))
        for row in range(19):
            assert entry(image, weigh)(0.25, group, row) == weigh_with_numba(0.25, group, row)
        (made, offset), (expected, same) = (
            entry(image, scaled)(group, 7),
            scale_with_numba(group, 7),
        )
        assert np.array_equal(made, expected)
        assert offset == same


def test_groups_may_be_of_groups(image: KernelImage) -> None:
    pair = Pair(series(), series(offset=100), np.zeros(7, np.int64))
    assert entry(image, weigh_pair)(pair, 4) == 407
    for wrong in (
        pair._replace(left=series(starts=None)),
        pair._replace(right=series(values=None)),
    ):
        with pytest.raises(TypeError, match="weigh_pair"):
            entry(image, weigh_pair)(wrong, 4)
    with pytest.raises(TypeError, match="weigh_pair"):
        entry(image, weigh_pair)((*pair.left, *pair.right, pair.rest), 4)


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
def test_what_is_not_just_the_group_is_refused(image: KernelImage, argument: Any) -> None:
    with pytest.raises(TypeError, match="weigh: the arguments fit none of its signatures"):
        entry(image, weigh)(0.0, argument, 0)


def test_a_number_of_a_group_must_be_one(image: KernelImage) -> None:
    with pytest.raises(TypeError):
        entry(image, weigh)(0.0, series(offset="3"), 0)


def test_groups_and_their_members_are_not_kept(image: KernelImage) -> None:
    group = series(offset=1 << 40)
    wrong = series(values=np.zeros(5, np.int8))
    objects = [group, *group, wrong, *wrong]
    before = [sys.getrefcount(one) for one in objects]
    add, make = entry(image, weigh), entry(image, scaled)
    for _ in range(1_000_000):
        add(0.0, group, 1)
    for _ in range(1_000):
        make(group, 2)
        with pytest.raises(TypeError):
            add(0.0, wrong, 1)
    assert [sys.getrefcount(one) for one in objects] == before


def test_a_member_is_not_a_result(image: KernelImage) -> None:
    with pytest.raises(SystemError, match="returned one of its arguments"):
        entry(image, values_of)(series())


def test_other_threads_run_meanwhile(image: KernelImage) -> None:
    thread = threading.Thread(target=entry(image, spin), args=(300_000_000,))
    thread.start()
    rounds = 0
    while thread.is_alive():
        time.sleep(0.001)
        rounds += 1
    assert rounds > 20


def test_unknown_functions_have_no_entry(image: KernelImage) -> None:
    assert image.function(listed) is None


def test_a_list_cannot_be_returned() -> None:
    with pytest.raises(CannotEnter, match="listed: a result of type"):
        compile_all({"listed": compiled(listed, "(int64,)")})


@pytest.mark.parametrize("place", [0, 9, 20, 40, 5_000, -1])
def test_a_changed_image_is_not_mapped(image_path: Path, tmp_path: Path, place: int) -> None:
    content = bytearray(image_path.read_bytes())
    content[place] ^= 1
    damaged = tmp_path / "image"
    damaged.write_bytes(content)
    with pytest.raises(DamagedImage):
        KernelImage(damaged)


@pytest.mark.parametrize("size", [1, 31, 33, 4_096])
def test_a_cut_image_is_not_mapped(image_path: Path, tmp_path: Path, size: int) -> None:
    cut = tmp_path / "image"
    cut.write_bytes(image_path.read_bytes()[:size])
    with pytest.raises(DamagedImage):
        KernelImage(cut)


def test_numba_is_used_where_there_is_no_image(
    image_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "image"
    monkeypatch.setattr(kernels, "image_path", lambda: path)
    monkeypatch.delenv("FACETD_KERNELS", raising=False)
    assert kernels._open_image() is None
    path.touch()  # made for a machine that can have none
    assert kernels._open_image() is None
    assert path.exists()
    path.write_bytes(image_path.read_bytes()[:-1])
    assert kernels._open_image() is None
    assert not path.exists()
    assert "slow way" in capsys.readouterr().err
    path.write_bytes(image_path.read_bytes())
    assert kernels._open_image() is not None
    monkeypatch.setenv("FACETD_KERNELS", "numba")
    assert kernels._open_image() is None


def test_an_image_that_must_not_be_executed_is_left_alone(
    image_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be made anew, and refused again, at every start."""

    def refuse(address: int, size: int) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(kernels, "image_path", lambda: image_path)
    monkeypatch.setattr("common.kernels.image._make_executable", refuse)
    monkeypatch.delenv("FACETD_KERNELS", raising=False)
    assert kernels._open_image() is None
    assert image_path.exists()
    assert "not here" in capsys.readouterr().err


def test_an_object_of_another_machine_is_not_linked() -> None:
    code, symbols = compile_all({"spin": compiled(spin, "int64(int64)")})
    other = bytearray(code)
    other[18:20] = (183).to_bytes(2, "little")  # AArch64
    with pytest.raises(CannotLink, match="x86-64"):
        link(bytes(other), symbols)
