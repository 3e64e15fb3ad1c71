import type { AgentView } from "@circadia/client";
import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { agentReasonQuery } from "../server/queries";
import { stateOf } from "./agent-state";
import { Ago, Lasting } from "./time";
import { WakeCircles } from "./wake-circles";

/** Since when an agent sleeps or is awake, why, and what wakes it next; and the circles of wakes that it is in. */
export function AgentHeadline({ agent }: { agent: AgentView }) {
  const reason = useQuery(agentReasonQuery(agent.reference)).data;
  const because = reason?.because ?? `by ${agent.actor}`;
  return (
    <>
      <Text size="sm" component="p" m={0} className="foreign-text" role="status" aria-label="State and next wake">
        {stateOf(agent)} for <Lasting since={agent.since} />, {because};{" "}
        {agent.next ? (
          <>
            wakes next <Ago at={agent.next.at} /> by {agent.next.by}
          </>
        ) : (
          `nothing planned wakes it, only: ${describeWakers(reason?.wakers ?? agent.wake_events)}`
        )}
        .
      </Text>
      <WakeCircles agent={agent.reference} />
    </>
  );
}

function describeWakers(wakers: readonly string[]): string {
  return wakers.length === 0 ? "a person" : wakers.map((waker) => waker.replaceAll("_", " ")).join(", ");
}
