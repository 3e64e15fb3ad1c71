"""The weights of a search find what was said in six languages, and a fit finds those of a known score."""

import numpy as np
import pytest

from benchmarks import score
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.memory.search.index import WEIGHTS

IN_USE = np.array(list(WEIGHTS.values()))
COLUMNS = range(len(WEIGHTS))


@pytest.mark.spec("MEM-31")
async def test_the_weights_in_use_find_what_was_said_in_six_languages_and_so_do_fitted_ones() -> None:
    six = await score.find_candidates(BundledEmbedder(), score.read_six_languages())
    assert len(six) == 48
    assert score.recall(six, IN_USE, COLUMNS, score.FEW) >= 100 * 35 / 48
    fitted = score.fit([(six, 1.0)])
    assert score.recall(six, fitted, COLUMNS, score.FEW) >= 100 * 36 / 48


def test_a_fit_finds_which_part_tells_where_the_evidence_is() -> None:
    draw = np.random.default_rng(7)
    talk: list[score.Candidates] = []
    for _ in range(300):
        parts = draw.random((30, len(WEIGHTS)))
        evidence = frozenset([int(np.argmax(parts @ IN_USE))])
        talk.append(score.Candidates(parts=parts, places=np.arange(30), evidence=evidence))
    fitted = score.fit([(talk, 1.0)])
    assert score.recall(talk, fitted, COLUMNS, 1) > 85
    assert np.corrcoef(fitted, IN_USE)[0, 1] > 0.9
