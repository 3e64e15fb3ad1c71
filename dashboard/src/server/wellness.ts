import type { OverviewView } from "@circadia/client";

interface Signs {
  isConnected: boolean;
  /** Why the server that serves the page is not ready; empty if it is. */
  readiness: string | undefined;
  overview: OverviewView | undefined;
  /** Whether the newest readiness or overview could not be read. */
  isUnknown: boolean;
}

/** Return what is not well, each with what to do: an empty list says that all is. */
export function findProblems({ isConnected, readiness, overview, isUnknown }: Signs): string[] {
  return [
    ...(isConnected ? [] : ["The server cannot be reached. The page shows what it last knew, and goes on by itself."]),
    ...(readiness ? [`This server is not ready: ${readiness}. Look at its log`] : []),
    ...(isConnected && isUnknown ? ["The server does not say how it is. The page shows what it last knew. Look at the server's log"] : []),
    ...(overview?.problems ?? []),
  ];
}
