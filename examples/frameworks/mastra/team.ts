// A team of three agents in Mastra. Each one sleeps, at no cost, until a message wakes it.
//
//     node examples/frameworks/mastra/team.ts tokens.json
import { readFileSync } from 'node:fs';

import { createOpenAI } from '@ai-sdk/openai';
import { Agent } from '@mastra/core/agent';
import { MCPClient } from '@mastra/mcp';

interface Member {
  name: string;
  token: string;
  description: string;
}

const CIRCADIA = process.env.CIRCADIA_URL ?? 'http://127.0.0.1:4114';

async function work({ name, token, description }: Member): Promise<void> {
  const openai = createOpenAI({ baseURL: `${CIRCADIA}/llm/openai/v1`, apiKey: token });
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  const server = { url: new URL(`${CIRCADIA}/mcp`), requestInit, timeout: 3_600_000 };
  const circadia = new MCPClient({ id: name, servers: { circadia: server } });
  try {
    const tools = await circadia.listTools();
    const agent = new Agent({ id: name, name, instructions: description, model: openai('gpt-5-mini'), tools });
    const { text } = await agent.generate('Begin.', { maxSteps: 20 });
    console.log(`${name}: ${text}`);
  } finally {
    await circadia.disconnect();
  }
}

const team: Member[] = JSON.parse(readFileSync(process.argv[2]!, 'utf8')).agents;
await Promise.all(team.map(work));
