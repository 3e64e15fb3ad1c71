import { type AgentView, CircadiaError, createCircadia } from "@circadia/client";

import { recordDate } from "./clock";

const timedFetch: typeof fetch = async (input, init) => {
  const sentAt = Date.now();
  const response = await fetch(input, init);
  recordDate(response.headers.get("date"), sentAt, Date.now());
  return response;
};

/** The server that has served this page; the session's cookie signs the calls in. */
export const circadia = createCircadia({ baseUrl: location.origin, fetch: timedFetch, maxRetries: 2 });

/** Return an agent with its entity tag, which only a header has. */
export async function showTaggedAgent(options: Parameters<typeof circadia.showAgent>[0]): Promise<AgentView & { etag: string }> {
  const asFields = { ...options, responseStyle: "fields" } as const; // the client's types know its default style only
  const { data, response } = (await circadia.showAgent(asFields)) as unknown as { data: AgentView; response: Response };
  return { ...data, etag: response.headers.get("etag") ?? "" };
}

/** Exchange a token for the session's cookie. */
export async function signIn(token: string): Promise<void> {
  const body = JSON.stringify({ token });
  await callSession({ method: "POST", body, headers: { "content-type": "application/json" } });
}

export async function signOut(): Promise<void> {
  await callSession({ method: "DELETE" });
}

async function callSession(init: RequestInit): Promise<void> {
  const response = await fetch(`${import.meta.env.BASE_URL}session`, init).catch(() => {
    throw new Error("The server cannot be reached. Is `circadia serve` running?");
  });
  if (response.ok) return;
  const problem = (await response.json().catch(() => null)) as { detail?: string } | null;
  throw new Error(problem?.detail ?? `The server answers with status ${response.status}.`);
}

/** Whether an error means that nobody is signed in, or not any more. */
export function isSignedOut(error: unknown): boolean {
  return error instanceof CircadiaError && error.status === 401;
}

/** Whether an error means that what was asked for is no longer there. */
export function isGone(error: unknown): boolean {
  return error instanceof CircadiaError && error.status === 404;
}

/** Whether an error means that somebody else has changed it meanwhile. */
export function isConflict(error: unknown): boolean {
  return error instanceof CircadiaError && error.status === 409;
}
