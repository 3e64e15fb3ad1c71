import { Group, Text } from "@mantine/core";

import { Icon } from "../parts/icon";
import { useLiveStatus } from "../server/live";
import type { LiveStatus } from "../server/live-events";

const WORDS: Record<LiveStatus, string> = { connecting: "Connecting", live: "Live", reconnecting: "Reconnecting" };

/** Whether the page follows the server's events. */
export function LiveBadge() {
  const status = useLiveStatus();
  const isLost = status === "reconnecting";
  return (
    <Group gap={4} wrap="nowrap" role="status" c={isLost ? "var(--tone-bad)" : undefined}>
      <Icon name={isLost ? "warning" : "live"} tone={isLost ? "bad" : "good"} />
      <Text size="sm">{WORDS[status]}</Text>
    </Group>
  );
}
