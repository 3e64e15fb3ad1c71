import type { WaitingCountView } from "@circadia/client";
import type { ComponentType } from "react";

import type { IconName } from "../parts/icon";
import { lazy } from "../parts/lazy";

interface PageEntry {
  /** Address below `/ui`; `:name` is a parameter. */
  path: string;
  /** Text in the navigation; a page without one is reached from others. */
  label?: string;
  icon?: IconName;
  group?: Group;
  /** What waits for a person there, of which the navigation shows the number. */
  waiting?: (keyof WaitingCountView)[];
  page: ComponentType;
}

export const groups = ["Now", "For you", "Memory", "Record", "System"] as const;
type Group = (typeof groups)[number];

/** All pages; each is one file and loads when it is opened. */
export const pages: PageEntry[] = [
  { path: "/", label: "Overview", icon: "overview", group: "Now", page: lazy(() => import("./overview")) },
  { path: "/timeline", label: "Timeline", icon: "timeline", group: "Now", page: lazy(() => import("./timeline")) },
  { path: "/agents", label: "Agents", icon: "agents", group: "Now", page: lazy(() => import("./agents")) },
  { path: "/agents/:reference", page: lazy(() => import("./agent")) },
  { path: "/holds", label: "Holds", icon: "held", group: "Now", page: lazy(() => import("./holds")) },
  { path: "/wakes", label: "Wakes", icon: "wakes", group: "Now", page: lazy(() => import("./wakes")) },
  { path: "/chains/:root", page: lazy(() => import("./chain")) },
  { path: "/alarms", label: "Alarms", icon: "alarm", group: "Now", page: lazy(() => import("./alarms")) },
  {
    path: "/for-you", label: "For you", icon: "check", group: "For you", page: lazy(() => import("./for-you")),
    waiting: ["approvals", "proposals", "dreams", "dead_letters", "alerts"],
  }, // prettier-ignore
  { path: "/messages", label: "Messages", icon: "inbox", group: "For you", waiting: ["dead_letters"], page: lazy(() => import("./messages")) },
  { path: "/threads", label: "Threads", icon: "threads", group: "For you", page: lazy(() => import("./threads")) },
  { path: "/hooks", label: "Hooks", icon: "hook", group: "For you", page: lazy(() => import("./hooks")) },
  { path: "/threads/:session/:thread", page: lazy(() => import("./thread")) },
  { path: "/banks", label: "Memory", icon: "memory", group: "Memory", page: lazy(() => import("./banks")) },
  { path: "/banks/:bank", page: lazy(() => import("./bank")) },
  { path: "/passes", label: "Passes", icon: "passes", group: "Memory", page: lazy(() => import("./passes")) },
  { path: "/passes/:pass", page: lazy(() => import("./pass")) },
  { path: "/dreams", label: "Dreams", icon: "dream", group: "Memory", waiting: ["dreams"], page: lazy(() => import("./dreams")) },
  { path: "/dreams/:dream", page: lazy(() => import("./dream")) },
  { path: "/calls", label: "Calls", icon: "calls", group: "Record", page: lazy(() => import("./calls")) },
  { path: "/usage", label: "Usage", icon: "usage", group: "Record", page: lazy(() => import("./usage")) },
  { path: "/events", label: "Events", icon: "events", group: "Record", page: lazy(() => import("./events")) },
  { path: "/sessions", label: "Sessions", icon: "agents", group: "System", page: lazy(() => import("./sessions")) },
  { path: "/providers", label: "Providers", icon: "providers", group: "System", page: lazy(() => import("./providers")) },
  { path: "/access", label: "People", icon: "person", group: "System", page: lazy(() => import("./access")) },
  { path: "/configuration", label: "Configuration", icon: "events", group: "System", page: lazy(() => import("./configuration")) },
  { path: "/cluster", label: "Cluster", icon: "cluster", group: "System", page: lazy(() => import("./cluster")) },
];
