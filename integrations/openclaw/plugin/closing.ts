/** Says to the gateway that a session is over, so that its last turn is closed and learnt from now, not when it is idle. */

/** OpenClaw gives all sessions together two seconds when it shuts down. */
const TIMEOUT_MS = 1500;

type Logger = { warn: (message: string) => void };

export async function closeSession(
  name: string,
  config: Record<string, unknown> | undefined,
  logger: Logger,
): Promise<void> {
  const gateway = config?.gatewayUrl;
  const key = process.env.TENTALIS_AGENT_KEY;
  if (typeof gateway !== "string" || !key) {
    logger.warn("tentalis: sessions are not closed: the plugin needs config.gatewayUrl and TENTALIS_AGENT_KEY");
    return;
  }
  const url = `${gateway.replace(/\/+$/, "")}/sessions/${encodeURIComponent(name)}/done`;
  try {
    const answer = await fetch(url, {
      method: "POST",
      headers: { Authorization: `Bearer ${key}` },
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    await answer.body?.cancel();
    // 404: this session never asked our gateway for anything
    if (!answer.ok && answer.status !== 404) logger.warn(`tentalis: ${url} answered ${answer.status}`);
  } catch (error) {
    logger.warn(`tentalis: session ${name} is not closed: ${error instanceof Error ? error.message : String(error)}`);
  }
}
