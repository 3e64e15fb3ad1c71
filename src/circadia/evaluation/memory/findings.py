"""The results of `circadia eval memory` as tables."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from circadia.evaluation.memory.arms import HITS, MemoryArm
from circadia.evaluation.memory.measure import MemoryAnswer, MemoryMeasurement
from circadia.evaluation.report import Chart, Findings, Grid
from circadia.records.agent import AgentPolicy

_Z: Final = 1.96
"""Of an interval of 95 %."""


def interval(right: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (E. B. Wilson, 1927)."""
    if not count:
        return 0.0, 1.0
    share, z2 = right / count, _Z * _Z
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z * math.sqrt(share * (1 - share) / count + z2 / (4 * count * count)) / (1 + z2 / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def build_memory_findings(
    measured: MemoryMeasurement, arms: Sequence[MemoryArm], names: dict[str, str], command: str, at: datetime
) -> Findings:
    """`names` are those of the models, by what they do."""
    answers = list(measured.file.answers.values())
    by_arm = {arm: [each for each in answers if each.arm == arm] for arm in arms}
    kinds = sorted({each.kind for each in answers})
    rows = [_build_row(arm, some) for arm, some in by_arm.items()]
    kind_rows = [
        [kind, *(_show_share([each for each in some if each.kind == kind]) for some in by_arm.values())]
        for kind in kinds
    ]
    return Findings(
        title="Answers about long talks, with and without memory", command=command, at=at,
        complete=len(answers) >= measured.step_count,
        grids=[
            Grid(
                title="Right answers, and what a question takes",
                columns=[
                    "arm", "questions", "right, % (95 %)", "by the judge, %", "tokens in", "out", "seconds", "USD",
                ],
                rows=[
                    [
                        row["arm"], f"{row['questions']:,}", _show_share(by_arm[MemoryArm(row["arm"])]),
                        f"{100 * row['judged']:.0f}", f"{row['input_tokens']:,.0f}", f"{row['output_tokens']:,.0f}",
                        f"{row['seconds']:.2f}", "?" if row["usd"] is None else f"{row['usd']:.5f}",
                    ]
                    for row in rows
                ],
            ),
            Grid(title="Right answers by kind, % (95 %)", columns=["kind", *arms], rows=kind_rows),
        ],
        charts=[
            Chart(
                name="memory", title="Right answers", across="arm", places=[row["arm"] for row in rows], lines=False,
                unit="% of the questions", series={"right": [100 * row["right"] for row in rows]},
            )
        ],
        notes=_build_notes(measured, names), figures={"models": names, "arms": rows, "kinds": [
            _build_row(arm, [each for each in some if each.kind == kind]) | {"kind": kind}
            for arm, some in by_arm.items() for kind in kinds
        ]},
    )  # fmt: skip


def _build_row(arm: MemoryArm, some: Sequence[MemoryAnswer]) -> dict[str, Any]:
    count, right = len(some), sum(each.right for each in some)
    low, high = interval(right, count)
    prices = [each.nanousd for each in some]
    return {
        "arm": arm.value, "questions": count, "right": right / max(count, 1), "low": low, "high": high,
        "judged": sum(each.judged for each in some) / max(count, 1),
        "input_tokens": sum(each.input_tokens for each in some) / max(count, 1),
        "output_tokens": sum(each.output_tokens for each in some) / max(count, 1),
        "seconds": sum(each.seconds for each in some) / max(count, 1),
        "usd": None if None in prices else sum(price or 0 for price in prices) / 1e9 / max(count, 1),
    }  # fmt: skip


def _show_share(some: Sequence[MemoryAnswer]) -> str:
    if not some:
        return "-"
    right = sum(each.right for each in some)
    low, high = interval(right, len(some))
    return f"{100 * right / len(some):.1f} ({100 * low:.0f} to {100 * high:.0f})"


def _build_notes(measured: MemoryMeasurement, names: dict[str, str]) -> list[str]:
    policy = AgentPolicy()
    notes = [
        "nothing: the question alone. all: the whole talk. context: what the gateway adds to a call, in an agent's "
        f"default room ({policy.stable_tokens:,} tokens of blocks, {policy.fitting_tokens:,} of what fits). bm25: as "
        "many tokens of the turns that full text with stems ranks best. recall: the context, and the tool `recall` "
        f"with {HITS} hits.",
        "Each talk is stored in a new bank, and the bundled embedder makes the vectors. "
        + (f"{names['passes']} worked in a pass after each sitting." if names["passes"] else "No pass ran."),
    ]
    if names["answers"]:
        notes.append(
            f"{names['answers']} answered. Days, numbers and names are graded by rule, all else by {names['judge']}."
        )
    else:
        notes.append("No model was asked: right means that all words of the key stand in what a model would be shown.")
    if measured.failed_passes:
        notes.append(f"{measured.failed_passes} passes failed or left work undone.")
    if measured.is_over_budget:
        notes.append("The budget is used up: run the command again with a larger one, and it goes on.")
    return notes
