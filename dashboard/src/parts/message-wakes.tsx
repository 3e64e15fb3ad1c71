import { Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { messageWakesQuery } from "../server/queries";
import { AgentLink } from "./name";
import { QueryView } from "./query-view";

/** For each recipient of a message: why it was woken, or was not. */
export function MessageWakes({ message }: { message: string }) {
  const query = useQuery(messageWakesQuery(message));
  return (
    <section aria-label="Why it woke, or did not">
      <Title order={3} size="h6" mb={4}>
        Why it woke, or did not
      </Title>
      <QueryView query={query}>
        {(recipients) => (
          <Stack component="ul" gap={2} m={0} pl="md">
            {recipients.map(({ agent, mentioned, why }) => (
              <Text key={agent} size="sm" component="li" className="foreign-text">
                <AgentLink reference={agent} />
                {mentioned && " (mentioned)"}: {why}
              </Text>
            ))}
          </Stack>
        )}
      </QueryView>
    </section>
  );
}
