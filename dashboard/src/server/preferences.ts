import { createContext, useContext, useSyncExternalStore } from "react";

/** What a person has chosen for all pages of this browser. */
interface Preferences {
  /** Height of the rows of tables. */
  density: "comfortable" | "dense";
  /** Zone in which times are shown: `agent` is that of the page's agent, and UTC elsewhere. */
  zone: "utc" | "local" | "agent";
}

const KEY = "circadia-preferences";
const DEFAULT: Preferences = { density: "comfortable", zone: "local" };
const watchers = new Set<() => void>();
let preferences = read();

function read(): Preferences {
  try {
    return { ...DEFAULT, ...(JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Preferences>) };
  } catch {
    return DEFAULT; // what is stored is not ours, or the browser stores nothing
  }
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

export function usePreferences(): Preferences {
  return useSyncExternalStore(watch, () => preferences);
}

export function changePreferences(changes: Partial<Preferences>): void {
  preferences = { ...preferences, ...changes };
  try {
    localStorage.setItem(KEY, JSON.stringify(preferences));
  } catch {
    // it holds for this page
  }
  for (const each of watchers) each();
}

/** Height of a table's row in pixels. */
export function useRowHeight(): number {
  return usePreferences().density === "dense" ? 28 : 32;
}

/** Zone of the agent that the page is about. */
export const AgentZoneContext = createContext("UTC");

/** Return the zone in which times are shown; undefined for the browser's own. */
export function useZone(): string | undefined {
  const { zone } = usePreferences();
  const agents = useContext(AgentZoneContext);
  return zone === "local" ? undefined : zone === "agent" ? agents : "UTC";
}
