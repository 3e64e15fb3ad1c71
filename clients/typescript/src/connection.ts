import { parseRetryAfter } from "./errors.js";
import { backoff, pause } from "./pauses.js";

const RETRIED_STATUSES = new Set([429, 502, 503, 504]);
const LONGEST_RETRY_AFTER_SECONDS = 60;

export interface ConnectionOptions {
  /** Maximum number of retries of a GET, or of a POST with an idempotency key. Default: 3. */
  maxRetries?: number;
  /** Maximum time until a response begins, in seconds. Default: 30. */
  timeoutSeconds?: number;
  /** The `fetch` to use. Default: the global one. */
  fetch?: typeof fetch;
}

/** Return a fetch that sends a request once and gives up if no response begins in time. */
export function singleFetch({ timeoutSeconds = 30, fetch: send }: ConnectionOptions): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init);
    const timeout = new AbortController();
    const timer = setTimeout(
      () => timeout.abort(new Error(`no response within ${timeoutSeconds} s`)),
      timeoutSeconds * 1000,
    );
    try {
      const signal = AbortSignal.any([request.signal, timeout.signal]);
      return await (send ?? globalThis.fetch)(request, { signal });
    } finally {
      clearTimeout(timer);
    }
  };
}

/** Return a fetch that repeats what may be sent twice, until a response begins, and honours `Retry-After`. */
export function retryingFetch(options: ConnectionOptions): typeof fetch {
  const send = singleFetch(options);
  const { maxRetries = 3 } = options;
  return async (input, init) => {
    const request = new Request(input, init);
    const retries = (await isRepeatable(request)) ? maxRetries : 0;
    for (let failures = 1; failures <= retries; failures++) {
      let milliseconds = backoff(failures);
      try {
        const response = await send(request.clone());
        if (!RETRIED_STATUSES.has(response.status)) return response;
        const seconds = parseRetryAfter(response.headers.get("retry-after"));
        if (seconds !== undefined && seconds > LONGEST_RETRY_AFTER_SECONDS) return response;
        if (seconds !== undefined) milliseconds = seconds * 1000;
        await response.body?.cancel();
      } catch (error) {
        if (request.signal.aborted) throw error;
      }
      await pause(milliseconds, request.signal);
    }
    return send(request);
  };
}

async function isRepeatable(request: Request): Promise<boolean> {
  if (request.method !== "POST") return request.method === "GET" || request.method === "HEAD";
  if (request.headers.has("idempotency-key")) return true;
  if (!request.headers.get("content-type")?.startsWith("application/json")) return false;
  const body = (await request.clone().json().catch(() => null)) as { key?: unknown } | null;
  return typeof body?.key === "string"; // the server rejects unknown keys, so an operation with `key` honours it
}
