import { type ConnectionOptions, retryingFetch, singleFetch } from "./connection.js";
import { callError, unexpectedResponse } from "./errors.js";
import { type CircadiaEvent, type EventOptions, followEvents, type OpenEventStream } from "./events.js";
import { createClient } from "./generated/client/index.js";
import { Operations } from "./generated/sdk.gen.js";
import type {
  GetSleepingData,
  GetSleepingResponse,
  ListMessagesData,
  ListMessagesResponse,
  ShowDreamData,
  ShowDreamResponse,
  ShowInboxData,
  ShowInboxResponse,
  ShowPassData,
  ShowPassResponse,
  ShowPulseData,
  ShowPulseResponse,
  ShowWakeData,
  ShowWakeResponse,
} from "./generated/types.gen.js";
import { readUntil, type WaitOptions } from "./waits.js";

export interface CircadiaOptions extends ConnectionOptions {
  /** Address of the server, such as `http://127.0.0.1:4114`. */
  baseUrl: string;
  /**
   * Token of a person or an agent, who may do what the server allows them. A page that the server itself serves needs
   * none: its cookie is sent.
   */
  token?: string;
}

/** A client with one method per operation of the REST API; a failed call throws a `CircadiaError`. */
export class Circadia extends Operations {
  readonly #options: CircadiaOptions;

  constructor(options: CircadiaOptions) {
    const client = createClient({
      baseUrl: options.baseUrl.replace(/\/+$/, ""),
      fetch: retryingFetch(options),
      headers: options.token === undefined ? {} : { Authorization: `Bearer ${options.token}` },
      responseStyle: "data",
      throwOnError: true,
    });
    client.interceptors.response.use(checkResponse);
    client.interceptors.error.use(callError);
    super({ client });
    this.#options = options;
  }

  /** Wait until an agent is asleep, or awake with `sleeping: false`. */
  waitUntilSleeping(
    { path }: Pick<GetSleepingData, "path">,
    { sleeping = true, ...options }: WaitOptions & { sleeping?: boolean } = {},
  ): Promise<GetSleepingResponse> {
    const read = (signal: AbortSignal) => this.getSleeping({ path, signal });
    return readUntil(read, (state) => state.sleeping === sleeping, options);
  }

  /** Wait for messages of a thread after the number `query.after`. */
  waitForMessages(
    { path, query }: Pick<ListMessagesData, "path" | "query">,
    options?: WaitOptions,
  ): Promise<ListMessagesResponse> {
    const read = (signal: AbortSignal) => this.listMessages({ path, query, signal });
    return readUntil(read, ({ messages }) => messages.length > 0, options);
  }

  /** Wait until an inbox has an unread message, or one that `query` asks for. */
  waitForInbox(
    { path, query }: Pick<ShowInboxData, "path" | "query">,
    options?: WaitOptions,
  ): Promise<ShowInboxResponse> {
    const read = (signal: AbortSignal) => this.showInbox({ path, query, signal });
    return readUntil(read, ({ messages }) => messages.length > 0, options);
  }

  /** Wait until a deferred wake request has its decision. */
  waitForWake({ path }: Pick<ShowWakeData, "path">, options?: WaitOptions): Promise<ShowWakeResponse> {
    const read = (signal: AbortSignal) => this.showWake({ path, signal });
    return readUntil(read, ({ decision }) => decision !== "deferred", options);
  }

  /** Wait until a pulse has ended, however it ended. */
  waitForPulse({ path }: Pick<ShowPulseData, "path">, options?: WaitOptions): Promise<ShowPulseResponse> {
    return readUntil((signal) => this.showPulse({ path, signal }), hasEnded, options);
  }

  /** Wait until a pass has ended, however it ended. */
  waitForPass({ path }: Pick<ShowPassData, "path">, options?: WaitOptions): Promise<ShowPassResponse> {
    return readUntil((signal) => this.showPass({ path, signal }), hasEnded, options);
  }

  /** Wait until a dream has ended, however it ended. */
  waitForDream({ path }: Pick<ShowDreamData, "path">, options?: WaitOptions): Promise<ShowDreamResponse> {
    return readUntil((signal) => this.showDream({ path, signal }), hasEnded, options);
  }

  /** Follow events: each one once, in order, also over a lost connection or a restart of the server. */
  events({ session, agent, type, ...options }: EventOptions = {}): AsyncGenerator<CircadiaEvent, void, undefined> {
    const open: OpenEventStream = (after, signal) =>
      this.client.get<ReadableStream<Uint8Array>, unknown, true, "data">({
        fetch: singleFetch(this.#options),
        headers: after === undefined ? {} : { "Last-Event-ID": String(after) },
        parseAs: "stream",
        query: { session, agent, type },
        signal,
        url: "/api/v1/events/stream",
      });
    return followEvents(open, this.#options.maxRetries ?? 3, options);
  }
}

/** Create a client for one server and one token. */
export function createCircadia(options: CircadiaOptions): Circadia {
  return new Circadia(options);
}

function hasEnded({ ended_at }: { ended_at: string | null }): boolean {
  return ended_at !== null;
}

function checkResponse(response: Response, request: Request): Response {
  const type = response.headers.get("content-type") ?? "";
  if (!response.ok || !response.body) return response;
  if (!/json|event-stream/.test(type)) throw unexpectedResponse(type || "no content type", response, request);
  if (!type.startsWith("application/x-ndjson")) return response;
  // The generated client would read JSON Lines as a Blob, although the operation's type is a string.
  return new Response(response.body, { headers: { "content-type": "text/plain" } });
}
