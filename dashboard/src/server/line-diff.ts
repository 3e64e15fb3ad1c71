export interface DiffLine {
  text: string;
  change: "same" | "added" | "removed";
}

const MOST_CELLS = 1_000_000;

/** Return the lines of both texts in order, by their longest common subsequence. */
export function diffLines(before: string, after: string): DiffLine[] {
  const old = before === "" ? [] : before.split("\n");
  const now = after === "" ? [] : after.split("\n");
  if (old.length * now.length > MOST_CELLS) return [...mark(old, "removed"), ...mark(now, "added")];
  const width = now.length + 1;
  const longest = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      longest[i * width + j] =
        old[i] === now[j]
          ? longest[(i + 1) * width + j + 1]! + 1
          : Math.max(longest[(i + 1) * width + j]!, longest[i * width + j + 1]!);
    }
  }
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length && j < now.length) {
    if (old[i] === now[j]) {
      lines.push({ text: old[i++]!, change: "same" });
      j++;
    } else if (longest[(i + 1) * width + j]! >= longest[i * width + j + 1]!) lines.push({ text: old[i++]!, change: "removed" });
    else lines.push({ text: now[j++]!, change: "added" });
  }
  return [...lines, ...mark(old.slice(i), "removed"), ...mark(now.slice(j), "added")];
}

function mark(lines: readonly string[], change: DiffLine["change"]): DiffLine[] {
  return lines.map((text) => ({ text, change }));
}
