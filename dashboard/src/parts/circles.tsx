import { Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { matrixQuery } from "../server/queries";
import { AgentLink } from "./name";
import { QueryView } from "./query-view";

/** Agents that wake each other. */
export function Circles() {
  const matrix = useQuery(matrixQuery());
  return (
    <div>
      <Title order={2} size="h5" mb="xs">
        Wakes in circles
      </Title>
      <QueryView query={matrix}>
        {(pairs) => {
          const back = new Map(pairs.map((pair) => [`${pair.to} ${pair.from}`, pair]));
          const circles = pairs.filter(({ from, to }) => from < to && back.has(`${from} ${to}`));
          if (circles.length === 0) return <Text size="sm">No two agents have woken each other today.</Text>;
          return (
            <Stack gap={4} component="ul" className="plain-list">
              {circles.map(({ from, to, total }) => (
                <li key={`${from} ${to}`} className="circle">
                  <AgentLink reference={from} />
                  <span aria-label="and">⇄</span>
                  <AgentLink reference={to} />
                  <Text size="xs" c="dimmed" component="span">
                    {total} and {back.get(`${from} ${to}`)!.total} requests today
                  </Text>
                </li>
              ))}
            </Stack>
          );
        }}
      </QueryView>
    </div>
  );
}
