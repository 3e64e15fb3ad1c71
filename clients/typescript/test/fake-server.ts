import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

import { type Circadia, type CircadiaOptions, createCircadia } from "@circadia/client";

export interface RecordedRequest {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  body: string;
  at: number;
}

export interface FakeServer {
  url: string;
  requests: RecordedRequest[];
  client: (options?: Partial<CircadiaOptions>) => Circadia;
  stop: () => Promise<void>;
}

type Answer = (response: ServerResponse, request: RecordedRequest) => void;

/** Start a server for one test that gives each request the next answer, and the last one to all later requests. */
export async function startServer(test: TestContext, ...answers: Answer[]): Promise<FakeServer> {
  const requests: RecordedRequest[] = [];
  const server = createServer(async (message, response) => {
    let body = "";
    for await (const chunk of message.setEncoding("utf8")) body += chunk;
    const request = { method: message.method!, path: message.url!, headers: message.headers, body, at: Date.now() };
    requests.push(request);
    answers[Math.min(requests.length, answers.length) - 1]!(response, request);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  test.after(stop);
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client: FakeServer["client"] = (options) => createCircadia({ baseUrl: url, token: "secret", ...options });
  return { url, requests, client, stop };
}

export function json(document: unknown, status = 200, headers: Record<string, string> = {}): Answer {
  return (response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(document));
  };
}

export function problem(status: number, code: string, headers: Record<string, string> = {}): Answer {
  const document = { type: `urn:circadia:error:${code}`, title: code, detail: `it is ${code}`, instance: "/", code };
  return json({ ...document, status }, status, { "content-type": "application/problem+json", ...headers });
}

/** Answer with server-sent events in these pieces, and end the response unless it is to stay open. */
export function eventStream(pieces: (string | Uint8Array)[], { open = false } = {}): Answer {
  return async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const piece of pieces) await new Promise((resolve) => response.write(piece, resolve));
    if (!open) response.end();
  };
}

export function destroy(response: ServerResponse): void {
  response.socket!.destroy();
}
