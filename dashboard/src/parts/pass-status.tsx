import type { PassStatus as Status } from "@circadia/client";
import { Group, Text } from "@mantine/core";

import { Icon, type IconName, type Tone } from "./icon";

const LOOKS: Record<Status, [IconName, Tone]> = {
  pending: ["held", "quiet"],
  running: ["passes", "dream"],
  succeeded: ["check", "good"],
  no_change: ["check", "quiet"],
  partial: ["warning", "held"],
  failed: ["warning", "bad"],
  cancelled: ["held", "quiet"],
  skipped: ["held", "quiet"],
};

export const PASS_STATUSES = Object.keys(LOOKS) as Status[];

export function PassStatus({ status }: { status: Status }) {
  const [icon, tone] = LOOKS[status];
  return (
    <Group gap={6} wrap="nowrap" component="span" display="inline-flex">
      <Icon name={icon} tone={tone} size={16} />
      <Text size="sm" span>
        {status.replaceAll("_", " ")}
      </Text>
    </Group>
  );
}
