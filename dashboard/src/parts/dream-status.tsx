import type { DreamJobStatus } from "@circadia/client";
import { Group, Text } from "@mantine/core";

import { Icon, type IconName, type Tone } from "./icon";

const LOOKS: Record<DreamJobStatus, [IconName, Tone]> = {
  pending: ["held", "quiet"],
  running: ["dream", "dream"],
  completed: ["check", "good"],
  failed: ["warning", "bad"],
  canceled: ["held", "quiet"],
};

export function DreamStatus({ status }: { status: DreamJobStatus }) {
  const [icon, tone] = LOOKS[status];
  return (
    <Group gap={6} wrap="nowrap" component="span" display="inline-flex">
      <Icon name={icon} tone={tone} size={16} />
      <Text size="sm" span>
        {status}
      </Text>
    </Group>
  );
}
