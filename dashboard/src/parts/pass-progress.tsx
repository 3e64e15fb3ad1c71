import type { PassView } from "@circadia/client";
import { Anchor, Group, Text } from "@mantine/core";
import { Link } from "wouter";

import { formatCount } from "../server/format";
import { PassStatus } from "./pass-status";
import { Lasting } from "./time";

/** How far an open pass is. */
export function PassProgress({ pass }: { pass: PassView }) {
  return (
    <Group gap="xs" wrap="nowrap">
      <Anchor component={Link} href={`/passes/${pass.id}`} aria-label={`${pass.status}: the pass over ${pass.bank}`}>
        <PassStatus status={pass.status} />
      </Anchor>
      <Text size="sm" className="name">
        {pass.started_at === null ? (
          "waits for a worker"
        ) : (
          <>
            for <Lasting since={pass.started_at} />, at episode {formatCount(pass.after)} of {formatCount(pass.upto)}
          </>
        )}
      </Text>
    </Group>
  );
}
