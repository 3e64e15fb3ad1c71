import type { CallView } from "@circadia/client";
import { Anchor, Group, Text } from "@mantine/core";
import { Link } from "wouter";

import { Icon, type IconName, type Tone } from "./icon";
import { AgentLink, Name } from "./name";

const STATES: Record<CallView["status"], [string, IconName, Tone]> = {
  done: ["done", "check", "good"],
  failed: ["failed", "warning", "bad"],
  reserved: ["under way", "pulse", "pulse"],
  held: ["held", "held", "held"],
};

/** How a call ended, or where it is. */
export function CallState({ call }: { call: Pick<CallView, "status"> }) {
  const [word, icon, tone] = STATES[call.status];
  return (
    <Group gap={4} wrap="nowrap">
      <Icon name={icon} tone={tone} size={16} />
      <Text size="sm">{word}</Text>
    </Group>
  );
}

/** The agent that made the call, or the bank for which the sleep tier made it. */
export function CallOwner({ call }: { call: Pick<CallView, "tier" | "agent" | "reference"> }) {
  if (call.tier !== "sleep") return <AgentLink reference={call.reference} />;
  return (
    <Anchor component={Link} href={`/banks/${encodeURIComponent(call.agent)}`} className="name">
      <Name text={`memory ${call.agent}`} />
    </Anchor>
  );
}
