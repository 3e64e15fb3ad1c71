import type { DreamJobStatus, DreamView } from "@circadia/client";
import { Group, Text } from "@mantine/core";

import { Icon, type IconName, type Tone } from "./icon";

const LOOKS: Record<DreamJobStatus, [IconName, Tone]> = {
  pending: ["held", "quiet"],
  running: ["dream", "dream"],
  completed: ["check", "good"],
  failed: ["warning", "bad"],
  canceled: ["held", "quiet"],
};

/** How far a dream is, and what people have decided on it. */
export function DreamStatus({ dream }: { dream: DreamView }) {
  const [icon, tone] = dream.waits ? (["warning", "held"] as const) : LOOKS[dream.status];
  return (
    <Group gap={6} wrap="nowrap" component="span" display="inline-flex">
      <Icon name={icon} tone={tone} size={16} />
      <Text size="sm" span>
        {dream.waits ? "waits for a person" : (dream.reviews.at(-1)?.act ?? dream.status)}
      </Text>
    </Group>
  );
}
