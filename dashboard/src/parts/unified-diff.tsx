import { Stack, Text } from "@mantine/core";
import { parsePatch } from "diff";

import type { DiffLine } from "../server/text-diff";
import { DiffLines } from "./text-diff";

/** Circadia's own files in a memory folder, which repeat what leaves the others. */
const OWN = ".circadia/";
const KINDS: Record<string, DiffLine["kind"]> = { "+": "added", "-": "removed", "\\": "left-out" };

/** A unified diff, file by file. */
export function UnifiedDiff({ diff }: { diff: string }) {
  const files = parsePatch(diff).map(({ oldFileName = "", newFileName = "", hunks }) => ({
    name: newFileName === "/dev/null" ? oldFileName : newFileName,
    lines: hunks.flatMap(({ newStart, lines }): DiffLine[] => [{ kind: "left-out", text: `line ${newStart}` }, ...lines.map(readLine)]),
  }));
  return (
    <Stack>
      {files
        .filter(({ name }) => !name.startsWith(OWN))
        .map(({ name, lines }) => (
          <div key={name}>
            <Text fw={600} className="foreign-text">
              {name}
            </Text>
            <DiffLines label={`Changes of ${name}`} lines={lines} />
          </div>
        ))}
    </Stack>
  );
}

function readLine(line: string): DiffLine {
  return { kind: KINDS[line.charAt(0)] ?? "same", text: line.slice(1) };
}
