import type { CSSProperties } from "react";

import { compareTexts, type DiffLine } from "../server/text-diff";

const ELEMENTS = { added: "ins", removed: "del", same: "span", "left-out": "em" } as const;
const SIGNS: Record<DiffLine["kind"], string> = { added: "+ ", removed: "− ", same: "  ", "left-out": "… " };
const COLOURS: Record<DiffLine["kind"], string> = {
  added: "var(--tone-good)", removed: "var(--tone-bad)", same: "transparent", "left-out": "transparent",
}; // prettier-ignore

/** What changed between two texts, line by line. */
export function TextDiff({ label, before, after }: { label: string; before: string; after: string }) {
  return <DiffLines label={label} lines={compareTexts(before, after)} />;
}

export function DiffLines({ label, lines }: { label: string; lines: readonly DiffLine[] }) {
  return (
    <div role="group" aria-label={label} style={{ fontSize: "var(--mantine-font-size-sm)" }}>
      {lines.length === 0 && "The text is the same."}
      {lines.map(({ kind, text }, index) => {
        const Element = ELEMENTS[kind];
        return (
          <Element key={index} className="foreign-text" dir="auto" style={lineStyle(kind)}>
            {SIGNS[kind]}
            {text}
          </Element>
        );
      })}
    </div>
  );
}

function lineStyle(kind: DiffLine["kind"]): CSSProperties {
  return { display: "block", textDecoration: "none", paddingInline: 8, borderInlineStart: `3px solid ${COLOURS[kind]}` };
}
