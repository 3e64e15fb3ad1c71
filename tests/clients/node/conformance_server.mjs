// An MCP server that offers everything the conformance suite asks for; it prints its URL.
// It stands behind the gateway, so that the suite shows that nothing is lost on the way.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";

import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import * as types from "@modelcontextprotocol/sdk/types.js";

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";
const STEP_MILLISECONDS = 50;

const words = (text) => ({ type: "text", text });
const image = { type: "image", data: PNG, mimeType: "image/png" };
const resource = (uri, mimeType, text) => ({ type: "resource", resource: { uri, mimeType, text } });
const pause = () => new Promise((done) => setTimeout(done, STEP_MILLISECONDS));
const object = (properties = {}, required = []) => ({ type: "object", properties, required });
const choices = (...titles) => titles.map((title, index) => ({ const: `value${index + 1}`, title }));

const DEFAULTS = object({
  name: { type: "string", default: "John Doe" },
  age: { type: "integer", default: 30 },
  score: { type: "number", default: 95.5 },
  status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
  verified: { type: "boolean", default: true },
});
const ENUMS = object({
  untitledSingle: { type: "string", enum: ["option1", "option2", "option3"] },
  titledSingle: { type: "string", oneOf: choices("First Option", "Second Option", "Third Option") },
  legacyEnum: {
    type: "string",
    enum: ["opt1", "opt2", "opt3"],
    enumNames: ["Option One", "Option Two", "Option Three"],
  },
  untitledMulti: { type: "array", items: { type: "string", enum: ["option1", "option2", "option3"] } },
  titledMulti: { type: "array", items: { anyOf: choices("First Choice", "Second Choice", "Third Choice") } },
});
const PERSON = object({ username: { type: "string" }, email: { type: "string" } }, ["username", "email"]);

async function elicit(extra, message, requestedSchema, lead) {
  const request = { method: "elicitation/create", params: { message, requestedSchema } };
  const { action, content } = await extra.sendRequest(request, types.ElicitResultSchema);
  return [words(`${lead}: action=${action}, content=${JSON.stringify(content ?? {})}`)];
}

const none = object();
const tools = {
  test_simple_text: { takes: none, run: () => [words("This is a simple text response for testing.")] },
  test_image_content: { takes: none, run: () => [image] },
  test_audio_content: { takes: none, run: () => [{ type: "audio", data: WAV, mimeType: "audio/wav" }] },
  test_embedded_resource: {
    takes: none,
    run: () => [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
  },
  test_multiple_content_types: {
    takes: none,
    run: () => [
      words("Multiple content types test:"),
      image,
      resource("test://mixed-content-resource", "application/json", JSON.stringify({ test: "data", value: 123 })),
    ],
  },
  test_error_handling: {
    takes: none,
    run: () => {
      throw new Error("This tool intentionally returns an error for testing");
    },
  },
  test_tool_with_logging: {
    takes: none,
    run: async (_, extra) => {
      for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
        await extra.sendNotification({ method: "notifications/message", params: { level: "info", data } });
        await pause();
      }
      return [words("logged")];
    },
  },
  test_tool_with_progress: {
    takes: none,
    run: async (_, extra) => {
      const progressToken = extra._meta?.progressToken;
      for (const progress of progressToken === undefined ? [] : [0, 50, 100]) {
        const params = { progressToken, progress, total: 100 };
        await extra.sendNotification({ method: "notifications/progress", params });
        await pause();
      }
      return [words("progressed")];
    },
  },
  test_sampling: {
    takes: object({ prompt: { type: "string" } }, ["prompt"]),
    run: async ({ prompt }, extra) => {
      const params = { messages: [{ role: "user", content: words(prompt) }], maxTokens: 100 };
      const request = { method: "sampling/createMessage", params };
      const { content } = await extra.sendRequest(request, types.CreateMessageResultSchema);
      return [words(`LLM response: ${content.text}`)];
    },
  },
  test_elicitation: {
    takes: object({ message: { type: "string" } }, ["message"]),
    run: ({ message }, extra) => elicit(extra, message, PERSON, "User response"),
  },
  test_elicitation_sep1034_defaults: {
    takes: none,
    run: (_, extra) => elicit(extra, "Check the defaults", DEFAULTS, "Elicitation completed"),
  },
  test_elicitation_sep1330_enums: {
    takes: none,
    run: (_, extra) => elicit(extra, "Choose", ENUMS, "Elicitation completed"),
  },
};

const prompts = {
  test_simple_prompt: { takes: [], say: () => [words("This is a simple prompt for testing.")] },
  test_prompt_with_arguments: {
    takes: ["arg1", "arg2"],
    say: ({ arg1, arg2 }) => [words(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)],
  },
  test_prompt_with_embedded_resource: {
    takes: ["resourceUri"],
    say: ({ resourceUri }) => [
      resource(resourceUri, "text/plain", "Embedded resource content for testing."),
      words("Please process the embedded resource above."),
    ],
  },
  test_prompt_with_image: { takes: [], say: () => [image, words("Please analyze the image above.")] },
};

const resources = {
  "test://static-text": { mimeType: "text/plain", text: "This is the content of the static text resource." },
  "test://static-binary": { mimeType: "image/png", blob: PNG },
  "test://watched-resource": { mimeType: "text/plain", text: "Watched." },
};

function read(uri) {
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  if (id === undefined) return { uri, ...resources[uri] };
  const text = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
  return { uri, mimeType: "application/json", text };
}

function build() {
  const capabilities = { tools: {}, prompts: {}, resources: { subscribe: true }, logging: {}, completions: {} };
  const server = new Server({ name: "conformance", version: "1" }, { capabilities });
  const on = (schema, answer) => server.setRequestHandler(schema, answer);
  on(types.ListToolsRequestSchema, () => ({
    tools: Object.entries(tools).map(([name, { takes }]) => ({ name, description: name, inputSchema: takes })),
  }));
  on(types.CallToolRequestSchema, async ({ params }, extra) => {
    try {
      return { content: await tools[params.name].run(params.arguments ?? {}, extra) };
    } catch (error) {
      return { isError: true, content: [words(String(error.message))] };
    }
  });
  on(types.ListPromptsRequestSchema, () => ({
    prompts: Object.entries(prompts).map(([name, { takes }]) => ({
      name,
      description: name,
      arguments: takes.map((each) => ({ name: each, description: each, required: true })),
    })),
  }));
  on(types.GetPromptRequestSchema, ({ params }) => ({
    messages: prompts[params.name].say(params.arguments ?? {}).map((content) => ({ role: "user", content })),
  }));
  on(types.ListResourcesRequestSchema, () => ({
    resources: Object.entries(resources).map(([uri, { mimeType }]) => ({
      uri,
      name: uri,
      description: uri,
      mimeType,
    })),
  }));
  on(types.ReadResourceRequestSchema, ({ params }) => ({ contents: [read(params.uri)] }));
  on(types.SubscribeRequestSchema, () => ({}));
  on(types.UnsubscribeRequestSchema, () => ({}));
  on(types.SetLevelRequestSchema, () => ({}));
  on(types.CompleteRequestSchema, () => ({ completion: { values: ["paris", "park"], total: 2, hasMore: false } }));
  return server;
}

const transports = new Map();

async function handle(request, response) {
  const known = transports.get(request.headers["mcp-session-id"]);
  if (known) return known.handleRequest(request, response);
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => transports.set(id, transport),
  });
  await build().connect(transport);
  return transport.handleRequest(request, response);
}

const listener = createServer((request, response) => handle(request, response));
listener.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${listener.address().port}/mcp`));
