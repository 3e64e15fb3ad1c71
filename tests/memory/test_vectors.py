"""The nearest vectors, found by their signs first."""

import numpy as np
import pytest

from circadia.memory.vectors import Vectors, stored_vector


def unit(count: int, dimensions: int, seed: int = 0) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    found = np.random.default_rng(seed).normal(size=(count, dimensions)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.mark.parametrize("dimensions", [3, 64, 100, 256])
@pytest.mark.spec("MEM-05")
def test_the_nearest_are_those_by_value_whatever_the_dimensions(dimensions: int) -> None:
    values, asked = unit(500, dimensions), unit(1, dimensions, seed=1)[0]
    held = Vectors(dimensions)
    held.extend(range(0, 1000, 2), [stored_vector(each) for each in values])
    rows, cosines = held.nearest(asked, 100, None)
    true = values @ asked
    assert rows[np.argmax(cosines)] == 2 * np.argmax(true)
    best = set((2 * np.argsort(-true)[:50]).tolist())
    assert len(best & set(rows.tolist())) >= 48
    assert cosines.max() == pytest.approx(true.max(), abs=2e-3)


def test_only_allowed_rows_are_found() -> None:
    held = Vectors(8)
    values = unit(300, 8)
    held.extend(range(300), [stored_vector(each) for each in values])
    allowed = np.zeros(300, np.bool_)
    assert len(held.nearest(values[0], 10, allowed)[0]) == 0
    allowed[[3, 7]] = True
    assert set(held.nearest(values[0], 10, allowed)[0].tolist()) == {3, 7}
    allowed[:] = True
    found = set(held.nearest(values[0], 10, allowed)[0].tolist())
    assert found == set(held.nearest(values[0], 10, None)[0].tolist())


def test_vectors_that_are_not_sound_are_left_out_and_the_others_are_found() -> None:
    values = unit(4, 8)
    broken = values[1].copy()
    broken[3] = np.nan
    held = Vectors(8)
    held.extend([0, 1, 2, 3, 4], [
        stored_vector(values[0]), stored_vector(broken), b"\0\0", stored_vector(values[3]), b"",
    ])  # fmt: skip
    rows, cosines = held.nearest(values[3], 10, None)
    assert set(rows.tolist()) == {0, 3}
    assert rows[np.argmax(cosines)] == 3
    held.extend([5], [b"odd"])
    assert len(held.nearest(values[3], 10, None)[0]) == 2


def test_values_that_16_bits_cannot_hold_do_not_spoil_a_search() -> None:
    held = Vectors(2)
    with np.errstate(over="ignore"):
        huge = stored_vector(np.array([1e9, 0.0], np.float32))
    held.extend([0, 1], [huge, stored_vector(np.array([0.6, 0.8], np.float32))])
    rows, cosines = held.nearest(np.array([1.0, 0.0], np.float32), 5, None)
    assert rows.tolist() == [1]
    assert cosines[0] == pytest.approx(0.6, abs=1e-3)
