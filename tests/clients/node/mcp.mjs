// One tool call with the official MCP client, v1 or v2 of the SDK.
import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

import { given, report } from "./report.mjs";

const { sdk, mode, url, token, tool, arguments: args, progress, options } = given;
const info = { name: "circadia-test", version: "1" };
const headers = { Authorization: `Bearer ${token}` };

await report(async () => {
  const transport = new (sdk === "v1" ? TransportV1 : TransportV2)(new URL(url), { requestInit: { headers } });
  const client = sdk === "v1" ? new ClientV1(info) : new ClientV2(info, { versionNegotiation: { mode } });
  await client.connect(transport);
  const steps = [];
  const chosen = { ...options, ...(progress ? { onprogress: (step) => steps.push(step) } : {}) };
  const request = { name: tool, arguments: args };
  const result = await (sdk === "v1"
    ? client.callTool(request, undefined, chosen)
    : client.callTool(request, chosen));
  await client.close();
  return { text: result.content[0].text, is_error: result.isError ?? false, steps };
});
