// Uses the package as a program that installed it; the test copies this file beside its node_modules.
import { circadiaMiddleware, CircadiaError, createCircadia } from "@circadia/client";

export async function smoke(baseUrl, token) {
  const circadia = createCircadia({ baseUrl, token });
  const { sessions } = await circadia.listSessions();
  const error = await circadia.showSession({ path: { session: "none" } }).catch((error) => error);
  const events = circadia.events({ after: 0 });
  const { value: event } = await events.next();
  await events.return();
  const params = await circadiaMiddleware({ user: "Zoë" }).transformParams({ params: {} });
  return {
    session: sessions[0].name,
    error: error instanceof CircadiaError && error.code,
    event: event.type,
    user: params.headers["x-circadia-user"],
  };
}
