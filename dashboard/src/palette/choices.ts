import type { SearchMatchView } from "@circadia/client";

import { pages } from "../pages/registry";
import { circadia } from "../server/circadia";
import { listViews } from "../server/kept-views";
import { referenceOf } from "../server/reference";

/** Something that a person can choose in the palette. */
export interface Choice {
  key: string;
  /** What it leads to, such as `page` or `agent`. */
  kind: string;
  name: string;
  about?: string;
  /** An address to open. */
  address?: string;
  /** An element of the page to click. */
  element?: HTMLElement;
  /** A change on the server, with what is said when it has worked. */
  act?: () => Promise<unknown>;
  success?: string;
}

/** Return the pages and the views that were kept. */
export function listPlaces(): Choice[] {
  const views = listViews().map(({ name, address }) => ({ key: `view ${name}`, kind: "view", name, address }));
  const shown = pages.flatMap(({ path, label }) => (label === undefined ? [] : [{ key: path, kind: "page", name: label, address: path }]));
  return [...views, ...shown];
}

/** Return the acts of the page that is open: its buttons and tabs, by their names. */
export function listActs(): Choice[] {
  const elements = document.querySelectorAll<HTMLElement>("#main button:not(.sort-button):not([disabled]), #main [role=tab]");
  const names = new Set<string>();
  const acts: Choice[] = [];
  for (const element of elements) {
    const name = (element.ariaLabel ?? element.textContent ?? "").trim();
    if (name === "" || names.has(name) || element.ariaDisabled === "true") continue;
    names.add(name);
    acts.push({ key: `act ${name}`, kind: element.role === "tab" ? "tab" : "act", name, element });
  }
  return acts;
}

/** Return where a match leads, and what can be done with it. */
export function choicesOf(match: SearchMatchView): Choice[] {
  const { kind, id, name, session, about } = match;
  const base = { key: `${kind} ${id}`, kind, name: name || id, about };
  switch (kind) {
    case "agent": {
      const reference = referenceOf(session, name);
      const path = { session: session ?? "default", agent: name };
      const change = (word: string, sleeping: boolean, success: string): Choice => ({
        key: `${word} ${id}`, kind: "act", name: `${word} ${reference}`, success,
        act: () => circadia.setSleeping({ path, body: { sleeping } }),
      }); // prettier-ignore
      return [
        { ...base, name: reference, address: `/agents/${encodeURIComponent(reference)}` },
        change("Sleep", true, `${reference} put to sleep.`),
        change("Wake", false, `${reference} woken.`),
      ];
    }
    case "session":
      return [{ ...base, address: `/sessions?session=${encodeURIComponent(name)}` }];
    case "thread":
      return [{ ...base, address: `/threads/${encodeURIComponent(session ?? "default")}/${id}` }];
    case "bank":
      return [{ ...base, address: `/banks/${encodeURIComponent(name)}` }];
    case "message":
      return [{ ...base, name: `from ${name}`, address: `/chains/${match.place}` }];
    case "wake":
      return [{ ...base, name: `of ${name}`, address: `/wakes?wake=${id}` }];
    case "pass":
      return [{ ...base, address: `/passes/${id}` }];
    case "call":
      return [{ ...base, name: `of ${name}`, address: `/calls?call=${id}` }];
  }
}

/** Whether a choice has the text in its name or kind. */
export function fits({ kind, name }: Choice, text: string): boolean {
  return `${kind} ${name}`.toLowerCase().includes(text.toLowerCase());
}
