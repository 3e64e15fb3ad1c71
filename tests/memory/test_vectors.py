"""The nearest vectors, found by their signs first."""

import numpy as np
import pytest

from circadia.memory.search.vectors import Vectors, stored_vector


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


@pytest.mark.spec("MEM-05", "ANS-09")
@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("dimensions", [64, 100, 256])
def test_among_many_what_is_near_is_found_as_if_all_were_compared_by_value(dimensions: int, share: float) -> None:
    draw = np.random.default_rng(3)
    values = unit(20_000, dimensions)
    allowed = draw.random(len(values)) < share if share < 1 else None
    held = Vectors(dimensions)
    held.extend(range(len(values)), [stored_vector(each) for each in values])
    for at in draw.integers(0, len(values), 30).tolist():
        asked = values[at] + 0.4 * unit(1, dimensions, seed=at)[0]
        asked /= np.linalg.norm(asked)
        true = values @ asked if allowed is None else np.where(allowed, values @ asked, -2)
        rows, cosines = held.nearest(asked, 2, allowed)
        assert len(rows) == 2
        if true.max() > 0.8:
            assert rows[np.argmax(cosines)] == np.argmax(true)
            assert cosines.max() == pytest.approx(true.max(), abs=2e-3)


def test_of_many_that_say_the_same_enough_are_found() -> None:
    values = np.tile(unit(1, 128), (30_000, 1))
    values[29_999] = unit(1, 128, seed=9)
    held = Vectors(128)
    held.extend(range(len(values)), [stored_vector(each) for each in values])
    assert len(held.nearest(values[0], 5, None)[0]) == 5
    assert 29_999 in held.nearest(values[29_999], 5, None)[0]
    assert len(held.nearest(values[0], 4_000, None)[0]) == 4_000


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


@pytest.mark.spec("MEM-21")
@pytest.mark.parametrize("count", [30, 2_100])
def test_vectors_that_were_removed_are_never_found_and_the_others_are_found_as_before(count: int) -> None:
    values, gone = unit(count, 64), np.array([0, 7, 8, count - 2, count - 1])
    held, without = Vectors(64), Vectors(64)
    held.extend(range(count), [stored_vector(each) for each in values])
    held.remove(gone)
    kept = np.setdiff1d(np.arange(count), gone)
    without.extend(kept.tolist(), [stored_vector(values[at]) for at in kept])
    for each in (held, without):
        each.extend([count], [stored_vector(values[7])])
    for at in (7, 20):
        found, truly = (dict(zip(*each.nearest(values[at], 10, None), strict=True)) for each in (held, without))
        assert max(found, key=found.__getitem__) == {7: count, 20: 20}[at]
        assert found == pytest.approx(truly)
