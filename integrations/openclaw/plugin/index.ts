/**
 * Tells the Tentalis gateway which session and turn each model call belongs to, and when a session is over. Model calls
 * go to the gateway as to any provider; nothing of OpenClaw is patched.
 */

import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";
import { closeSession } from "./closing.ts";
import { Turns } from "./turns.ts";

const PROVIDER = "tentalis";

export default definePluginEntry({
  id: PROVIDER,
  name: "Tentalis",
  description: "Tells the Tentalis gateway which session and turn a model call belongs to.",
  register(api) {
    const turns = new Turns();

    api.on("before_prompt_build", (_event, context) => turns.begin(context));
    api.on("before_compaction", (_event, context) => turns.compact(context, true));
    api.on("after_compaction", (_event, context) => turns.compact(context, false));
    api.on("agent_end", (_event, context) => turns.end(context));
    api.on("session_end", async (_event, context) => {
      const name = turns.close(context);
      if (name) await closeSession(name, api.pluginConfig, api.logger);
    });

    api.registerProvider({
      id: PROVIDER,
      label: "Tentalis",
      auth: [],
      resolveTransportTurnState: (context) => ({ headers: turns.headersFor(context.sessionId) }),
      // versions before September 2026 ask the hook above for the Responses transport alone
      wrapStreamFn: ({ streamFn }) =>
        streamFn &&
        ((model, context, options) =>
          streamFn(model, context, {
            ...options,
            headers: { ...options?.headers, ...turns.headersFor(options?.sessionId) },
          })),
    });
  },
});
