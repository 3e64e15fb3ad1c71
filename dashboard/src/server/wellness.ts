import type { OverviewView } from "@circadia/client";

interface Signs {
  isConnected: boolean;
  /** Why the server that serves the page is not ready; empty if it is. */
  readiness: string | undefined;
  overview: OverviewView | undefined;
}

/** Return what is not well, each with what to do: an empty list says that all is. */
export function findProblems({ isConnected, readiness, overview }: Signs): string[] {
  const problems = overview?.problems ?? [];
  return [
    ...(isConnected ? [] : ["The server cannot be reached. The page shows what it last knew, and goes on by itself."]),
    ...(readiness ? [`This server is not ready: ${readiness}. Look at its log`] : []),
    ...problems,
  ];
}
