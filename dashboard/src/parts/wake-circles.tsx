import { Alert, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Fragment } from "react";

import { formatNumberOf } from "../server/format";
import { circlesQuery } from "../server/queries";
import { Icon } from "./icon";
import { AgentLink } from "./name";

/** Agents that wake each other today, each circle with its wakes and the limit that ends it; nothing without one. */
export function WakeCircles({ agent }: { agent?: string }) {
  const circles = useQuery(circlesQuery(agent)).data ?? [];
  if (circles.length === 0) return null;
  return (
    <Alert color="orange" variant="outline" title="Wakes in a circle today" icon={<Icon name="warning" tone="bad" />}>
      {circles.map(({ agents, wakes, from, to, used, limit }) => (
        <Text key={agents.join()} size="sm" component="div">
          {agents.slice(0, 8).map((each, index) => (
            <Fragment key={each}>
              {index > 0 && " ⇄ "}
              <AgentLink reference={each} />
            </Fragment>
          ))}
          {agents.length > 8 && ` and ${agents.length - 8} more`}: {formatNumberOf(wakes, "wake")}; from <AgentLink reference={from} /> to{" "}
          <AgentLink reference={to} />: {used} {limit === null ? "without a limit" : `of at most ${limit}`}
        </Text>
      ))}
    </Alert>
  );
}
