// Vercel's AI SDK on each of its providers that a gateway can stand behind, streamed, with a tool.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { CLIENT_ROOT, CLIENT_KEY: apiKey, CLIENT_MODEL } = process.env;
const baseURL = `${CLIENT_ROOT}/v1`;
const openai = createOpenAI({ baseURL, apiKey });
const models = {
  responses: openai.responses(CLIENT_MODEL),
  chat: openai.chat(CLIENT_MODEL),
  compatible: createOpenAICompatible({ name: "gateway", baseURL, apiKey, includeUsage: true })(CLIENT_MODEL),
  anthropic: createAnthropic({ baseURL, apiKey })(CLIENT_MODEL),
};
const weather = tool({
  description: "The sky over a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sun over ${city}`,
});
for (const [name, model] of Object.entries(models)) {
  const result = streamText({
    model,
    system: `You are ${name}.`,
    prompt: "What is the weather in Zürich?",
    tools: { weather },
    stopWhen: stepCountIs(4),
  });
  await result.consumeStream({ onError: (error) => console.error(name, error) });
  console.log(name, await result.text);
}
