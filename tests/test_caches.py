"""The mapping behind what is known again without being asked."""

from circadia.caches import BoundedDict


def test_one_entry_too_many_drops_the_one_that_was_written_longest_ago() -> None:
    kept = BoundedDict[str, int](2)
    kept["a"], kept["b"] = 1, 2
    kept["a"] = 3
    kept.update({"c": 4})
    assert list(kept.items()) == [("a", 3), ("c", 4)]
    assert kept["a"] == 3
    kept["d"] = 5
    assert list(kept) == ["c", "d"], "to read an entry keeps it no longer"
    kept.move_to_end("c")
    kept["e"] = 6
    assert list(kept) == ["c", "e"]
