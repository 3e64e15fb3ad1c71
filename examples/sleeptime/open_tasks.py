"""An operation of one's own: the block `tasks` lists what people asked for, and what is done. It needs no model."""

from collections.abc import Sequence

from circadia.records.bank import Trust
from circadia.records.change import Change
from circadia.records.episode import Episode
from circadia.sleeptime.proposals.changes import block_of, write_block
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, Step


class OpenTasks:
    """Reads lines such as `todo: call the landlord` and `done: call the landlord`."""

    name = "own_open_tasks"
    asks = False

    def plan(self, view: PageContext) -> Sequence[Step]:
        """Return one step, if one of the new episodes speaks of a task."""
        about = [each for each in view.page if each.trust is Trust.PERSON and _task(each) is not None]
        return [Step(name=f"{len(about)} tasks", episodes=about)] if about else []

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        """Return the block with what was asked for, ticked where it was done."""
        block = block_of(view, "tasks")
        value = block.value if block else ""
        lines: dict[str, Sequence[str]] = {}
        for line in value.splitlines():
            start = value.index(line)
            spans = block.spans if block else ()
            lines[line] = [key for each in spans if each.start <= start < each.end for key in each.episodes]
        for each in step.episodes:
            word, task = _task(each) or ("", "")
            if word == "todo" and f"[x] {task}" not in lines:
                lines.setdefault(f"[ ] {task}", [each.id])
            elif word == "done" and f"[ ] {task}" in lines:
                ticked = {f"[ ] {task}": f"[x] {task}"}
                lines = {ticked.get(line, line): sources for line, sources in lines.items()}
        new, spans, at = "\n".join(lines), list[tuple[int, int, Sequence[str]]](), 0
        for line, sources in lines.items():
            spans.append((at, at + len(line), sources))
            at += len(line) + 1
        return [] if new == value else [write_block(view, self.name, "tasks", new, spans, why="what was asked for")]


def _task(episode: Episode) -> tuple[str, str] | None:
    word, found, task = episode.text.partition(":")
    return (word.lower(), task.strip()) if found and word.lower() in ("todo", "done") and task.strip() else None
