import { Code } from "@mantine/core";

import { diffLines } from "../server/line-diff";

const SIGNS = { same: " ", added: "+", removed: "−" };
const COLOURS = { same: undefined, added: "var(--tone-good)", removed: "var(--tone-bad)" };

/** Two versions of a text, line by line. */
export function Diff({ before, after }: { before: string; after: string }) {
  return (
    <Code block className="foreign-text" tabIndex={0} role="region" aria-label="Changed lines">
      {diffLines(before, after).map(({ text, change }, index) => (
        <div key={index} style={{ color: COLOURS[change] }}>
          <span aria-hidden="true">{SIGNS[change]} </span>
          {change === "same" ? (
            <bdi>{text}</bdi>
          ) : change === "added" ? (
            <ins style={{ textDecoration: "none" }}>
              <bdi>{text}</bdi>
            </ins>
          ) : (
            <del>
              <bdi>{text}</bdi>
            </del>
          )}
        </div>
      ))}
    </Code>
  );
}
