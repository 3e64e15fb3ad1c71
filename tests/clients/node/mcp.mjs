// Tool calls with the official MCP client, v1 or v2 of the SDK; each has a client of its own.
import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

import { serve } from "./report.mjs";

await serve(async ({ sdk, mode, url, token, tool, arguments: args, progress, options }) => {
  const info = { name: "circadia-test", version: "1" };
  const headers = { Authorization: `Bearer ${token}` };
  const transport = new (sdk === "v1" ? TransportV1 : TransportV2)(new URL(url), { requestInit: { headers } });
  const client = sdk === "v1" ? new ClientV1(info) : new ClientV2(info, { versionNegotiation: { mode } });
  await client.connect(transport);
  try {
    const steps = [];
    const chosen = { ...options, ...(progress ? { onprogress: (step) => steps.push(step) } : {}) };
    const request = { name: tool, arguments: args };
    const result = await (sdk === "v1"
      ? client.callTool(request, undefined, chosen)
      : client.callTool(request, chosen));
    return { text: result.content[0].text, is_error: result.isError ?? false, steps };
  } finally {
    await client.close();
  }
});
