import type { ChangeView } from "@circadia/client";

import { circadia } from "./circadia";
import { query } from "./queries";

const PAGE = 1_000;
const MOST_CHANGES = 10_000;

/** Passes over a bank, newest first. */
export const passesQuery = (bank: string) =>
  query(["passes", bank], async ({ signal }) => (await circadia.listPasses({ path: { bank }, query: { limit: 200 }, signal })).passes);

export const passQuery = (pass: string) => query(["passes", "one", pass], ({ signal }) => circadia.showPass({ path: { pass }, signal }));

export const changesQuery = (pass: string) =>
  query(["passes", "changes", pass], async ({ signal }) => {
    const changes: ChangeView[] = [];
    let after: number | null = 0;
    while (after !== null && changes.length < MOST_CHANGES) {
      const page: { changes: ChangeView[]; after: number | null } = await circadia.listChanges({
        path: { pass },
        query: { after, limit: PAGE },
        signal,
      });
      changes.push(...page.changes);
      after = page.after;
    }
    return changes;
  });

export const bankSleeptimeQuery = (bank: string) =>
  query(["sleeptime", bank], ({ signal }) => circadia.showSleeptime({ path: { bank }, signal }));
