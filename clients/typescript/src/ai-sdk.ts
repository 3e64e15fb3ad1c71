import { parseRetryAfter } from "./errors.js";
import { pause } from "./pauses.js";

/** What a call says about itself, in the gateway's `x-circadia-…` headers. */
export interface CallContext {
  /** The end user on whose behalf the agent calls. */
  user?: string;
  /** The conversation to which the call belongs. */
  conversation?: string;
  /** The origin of the user's turn. */
  trust?: "person" | "agent" | "tool" | "external";
  /** `off` keeps the conversation out of memory; with `read`, it still gets context. Default: `on`. */
  memory?: "on" | "read" | "off";
}

export interface MiddlewareOptions extends CallContext {
  /** Whether time-outs of the caller end a call, also of a sleeping agent. Default: false. */
  keepTimeouts?: boolean;
}

/** The part of a model call that is the same in all versions of the AI SDK. */
interface ModelCall {
  abortSignal?: AbortSignal;
  headers?: Record<string, string | undefined>;
  providerOptions?: Record<string, Record<string, unknown>>;
}

/** A `LanguageModelMiddleware` of the AI SDK, for its versions 5 to 7. */
export interface CircadiaMiddleware {
  specificationVersion: "v3";
  transformParams: <Call extends ModelCall>(options: { params: Call }) => Promise<Call>;
  wrapGenerate: <Result>(options: { doGenerate: () => PromiseLike<Result>; params: ModelCall }) => Promise<Result>;
  wrapStream: <Result>(options: { doStream: () => PromiseLike<Result>; params: ModelCall }) => Promise<Result>;
}

const FETCH_PATIENCE_SECONDS = 300;
const DEFAULT_RETRY_AFTER_SECONDS = 5;

/**
 * Make the model calls of an agent wait while it sleeps, and name the end user and the conversation.
 *
 * `providerOptions: { circadia: { user, conversation, trust, memory } }` of a call overrides `options`. Time-outs of the
 * caller do not end a call unless `keepTimeouts` is set; an abort does.
 */
export function circadiaMiddleware(options: MiddlewareOptions = {}): CircadiaMiddleware {
  return {
    specificationVersion: "v3", // version 6 wants this one, 5 and 7 take any
    async transformParams({ params }) {
      const context: CallContext = { ...options, ...params.providerOptions?.["circadia"] };
      const headers = {
        // Node's fetch waits 300 s for headers; the gateway sends its first keep-alive within half of what this says.
        "x-stainless-timeout": String(FETCH_PATIENCE_SECONDS),
        ...contextHeaders(context),
        ...params.headers,
      };
      const abortSignal = options.keepTimeouts ? params.abortSignal : withoutTimeouts(params.abortSignal);
      return { ...params, headers, abortSignal };
    },
    wrapGenerate: ({ doGenerate, params }) => retryWhileAsleep(doGenerate, params.abortSignal),
    wrapStream: ({ doStream, params }) => retryWhileAsleep(doStream, params.abortSignal),
  };
}

export interface GatewayOptions {
  /** Address of the server, such as `http://127.0.0.1:4114`. */
  baseUrl: string;
  /** Token of the agent that makes the calls. */
  token: string;
  /** Name of the upstream in the server's configuration. Default: `openai`. */
  upstream?: string;
  /** Path that the provider expects in its base URL. Default: `/v1`; Google's provider needs `/v1beta`. */
  path?: string;
}

/** Return the settings with which a provider calls the model gateway: `createOpenAI(gatewaySettings(…))`. */
export function gatewaySettings({ baseUrl, token, upstream = "openai", path = "/v1" }: GatewayOptions): {
  baseURL: string;
  apiKey: string;
} {
  return { baseURL: `${baseUrl.replace(/\/+$/, "")}/llm/${encodeURIComponent(upstream)}${path}`, apiKey: token };
}

function contextHeaders({ user, conversation, trust, memory }: CallContext): Record<string, string> {
  const values = {
    "x-circadia-user": user,
    "x-circadia-conversation": conversation,
    "x-circadia-trust": trust,
    "x-circadia-memory": memory,
  };
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(values)) if (value !== undefined) headers[name] = encodeHeader(value);
  return headers;
}

/** Return the text as UTF-8 in the form that `fetch` wants: one character per byte. */
function encodeHeader(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

/** Repeat a call that the gateway itself refused before it ran: the agent still sleeps, or the server is stopping. */
async function retryWhileAsleep<Result>(call: () => PromiseLike<Result>, signal?: AbortSignal): Promise<Result> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      const { statusCode, responseHeaders } = error as ApiCallError;
      if (statusCode !== 503 || !responseHeaders?.["x-circadia-error"]) throw error;
      await pause((parseRetryAfter(responseHeaders["retry-after"]) ?? DEFAULT_RETRY_AFTER_SECONDS) * 1000, signal);
    }
  }
}

/** The fields of an `APICallError` of the AI SDK. */
interface ApiCallError {
  statusCode?: number;
  responseHeaders?: Record<string, string>;
}

function withoutTimeouts(signal: AbortSignal | undefined): AbortSignal | undefined {
  if (!signal) return undefined;
  const controller = new AbortController();
  const forward = () => {
    if (signal.reason?.name !== "TimeoutError") controller.abort(signal.reason);
  };
  if (signal.aborted) forward();
  else signal.addEventListener("abort", forward, { once: true });
  return controller.signal;
}
