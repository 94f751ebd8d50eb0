/**
 * What the gateway is told of a model call: its session, whether the agent speaks to its user or to itself, and the
 * platform's task it works on. Everything is kept by session: two sessions at work at once never share a header.
 */

export type TurnType = "main" | "side";

/** The fields of a hook's context that say whose turn it is. */
export type TurnContext = {
  sessionId?: string;
  sessionKey?: string;
  trigger?: string;
  inputProvenance?: { kind: string };
};

/** What the agent does unasked, and what another session asked of it. */
const SIDE_TRIGGERS = new Set(["heartbeat", "cron", "memory", "overflow", "manual"]);
const PLATFORM_TASK = /(?:^|:)(tentalis:(\d{1,18}):[A-Za-z0-9_-]{1,64})$/;
const MOST_SESSIONS = 10_000;

export function findTurnType(context: TurnContext): TurnType {
  if (SIDE_TRIGGERS.has(context.trigger ?? "")) return "side";
  const kind = context.inputProvenance?.kind ?? "external_user";
  return kind === "external_user" ? "main" : "side";
}

type Session = { name: string; task?: string; turn?: TurnType; isCompacting: boolean };

export class Turns {
  #sessions = new Map<string, Session>();

  /** A turn begins. A summary before it is over, also where OpenClaw did not say so: one that failed or was skipped. */
  begin(context: TurnContext): void {
    const session = this.#find(context);
    if (session) Object.assign(session, { turn: findTurnType(context), isCompacting: false });
  }

  /** Its answer is there: what the session asks a model for now, it asks for itself. */
  end(context: TurnContext): void {
    const session = this.#find(context);
    if (session) session.turn = "side";
  }

  /** The conversation is summed up in between; that is not an answer to anybody. */
  compact(context: TurnContext, isCompacting: boolean): void {
    const session = this.#find(context);
    if (session) session.isCompacting = isCompacting;
  }

  /** Forget a session; what the gateway knows it by. */
  close(context: TurnContext): string | undefined {
    const session = this.#find(context);
    if (context.sessionId) this.#sessions.delete(context.sessionId);
    return session?.name;
  }

  /** The headers of a call; of a session whose turns we are not told (no conversation access) only its name. */
  headersFor(sessionId: string | undefined): Record<string, string> {
    if (!sessionId) return {};
    const session = this.#sessions.get(sessionId);
    const turn = session?.isCompacting ? "side" : session?.turn;
    return {
      "X-Session-Id": session?.name ?? sessionId,
      ...(turn ? { "X-Turn-Type": turn } : {}),
      ...(session?.task ? { "X-Tentalis-Task": session.task } : {}),
    };
  }

  #find(context: TurnContext): Session | undefined {
    const { sessionId, sessionKey } = context;
    if (!sessionId) return undefined;
    let session = this.#sessions.get(sessionId);
    if (!session) {
      if (this.#sessions.size >= MOST_SESSIONS) {
        const [oldest] = this.#sessions.keys();
        if (oldest !== undefined) this.#sessions.delete(oldest);
      }
      session = { name: sessionId, isCompacting: false };
      this.#sessions.set(sessionId, session);
    }
    const task = PLATFORM_TASK.exec(sessionKey ?? "");
    if (task) [, session.name, session.task] = task as unknown as [string, string, string];
    return session;
  }
}
