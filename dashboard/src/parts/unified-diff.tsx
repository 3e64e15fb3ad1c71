import type { DiffLine } from "../server/text-diff";
import { DiffLines } from "./text-diff";

/** A unified diff of files, line by line. */
export function UnifiedDiff({ label, diff }: { label: string; diff: string }) {
  return <DiffLines label={label} lines={diff.replace(/\n$/, "").split("\n").map(readLine)} />;
}

function readLine(line: string): DiffLine {
  if (/^(\+\+\+|---|@@) /.test(line)) return { kind: "left-out", text: line };
  const text = line.slice(1);
  if (line.startsWith("+")) return { kind: "added", text };
  if (line.startsWith("-")) return { kind: "removed", text };
  return { kind: "same", text };
}
