// A team of three agents in the Vercel AI SDK. Each one sleeps, at no cost, until a message wakes it.
//
//     node examples/frameworks/vercel-ai-sdk/team.ts tokens.json
import { readFileSync } from 'node:fs';

import { createMCPClient } from '@ai-sdk/mcp';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, isStepCount } from 'ai';

interface Member {
  name: string;
  token: string;
  description: string;
}

const CIRCADIA = process.env.CIRCADIA_URL ?? 'http://127.0.0.1:4114';

async function work({ name, token, description }: Member): Promise<void> {
  const openai = createOpenAI({ baseURL: `${CIRCADIA}/llm/openai/v1`, apiKey: token });
  const headers = { Authorization: `Bearer ${token}` };
  const circadia = await createMCPClient({ transport: { type: 'http', url: `${CIRCADIA}/mcp`, headers } });
  try {
    const { text } = await generateText({
      model: openai('gpt-5-mini'),
      system: description,
      prompt: 'Begin.',
      tools: await circadia.tools(),
      stopWhen: isStepCount(20),
    });
    console.log(`${name}: ${text}`);
  } finally {
    await circadia.close();
  }
}

const team: Member[] = JSON.parse(readFileSync(process.argv[2]!, 'utf8')).agents;
await Promise.all(team.map(work));
