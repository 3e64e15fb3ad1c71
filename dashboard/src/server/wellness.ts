interface Signs {
  isConnected: boolean;
  /** Why the server that serves the page is not ready; empty if it is. */
  readiness: string | undefined;
  /** Whether the newest readiness or overview could not be read. */
  isUnknown: boolean;
}

/** Return what is not well with the server itself, each with what to do; the overview has the rest. */
export function findServerProblems({ isConnected, readiness, isUnknown }: Signs): string[] {
  return [
    ...(isConnected ? [] : ["The server cannot be reached. The page shows what it last knew, and goes on by itself."]),
    ...(readiness ? [`This server is not ready: ${readiness}. Look at its log`] : []),
    ...(isConnected && isUnknown ? ["The server does not say how it is. The page shows what it last knew. Look at the server's log"] : []),
  ];
}
