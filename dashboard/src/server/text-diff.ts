import { diffLines } from "diff";

export interface DiffLine {
  kind: "same" | "added" | "removed" | "left-out";
  text: string;
}

/** Unchanged lines shown around each change. */
const CONTEXT = 3;

/** Return the lines of both texts in order, with one line for a long part that both have; none if nothing has changed. */
export function compareTexts(before: string, after: string): DiffLine[] {
  const parts = diffLines(before, after, { ignoreNewlineAtEof: true });
  if (parts.every(({ added, removed }) => !added && !removed)) return [];
  return parts.flatMap(({ value, added, removed }, index) => {
    const lines = value.replace(/\n$/, "").split("\n");
    if (added || removed) return lines.map((text): DiffLine => ({ kind: added ? "added" : "removed", text }));
    return leaveOut(lines, index === 0 ? 0 : CONTEXT, index === parts.length - 1 ? 0 : CONTEXT);
  });
}

function leaveOut(lines: string[], atStart: number, atEnd: number): DiffLine[] {
  const same = (text: string): DiffLine => ({ kind: "same", text });
  const count = lines.length - atStart - atEnd;
  if (count <= 1) return lines.map(same);
  const note: DiffLine = { kind: "left-out", text: `${count} equal lines` };
  return [...lines.slice(0, atStart).map(same), note, ...lines.slice(lines.length - atEnd).map(same)];
}
