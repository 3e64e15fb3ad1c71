import { Anchor, Group, Stack, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { formatNumberOf } from "../server/format";
import { unhandledQuery } from "../server/queries";
import { HandledButton, RequeueButton } from "./message-acts";
import { AgentLink, ForeignText, Name } from "./name";
import { OlderRows } from "./older-rows";
import { QueryView } from "./query-view";
import { Ago } from "./time";
import { WaitingList } from "./waiting-list";

/** Messages whose pulse was interrupted for the last time. */
export function DeadLetters() {
  const query = useInfiniteQuery(unhandledQuery("dead"));
  return (
    <QueryView query={query}>
      {(letters) => (
        <Stack gap="xs">
          <WaitingList
            label="Dead letters"
            rows={letters}
            rowKey={({ id, to }) => `${id} ${to}`}
            title={({ from, to }) => (
              <>
                <Name text={from} /> to <AgentLink reference={to} />
              </>
            )}
            about={({ content, at }) => (
              <>
                <ForeignText text={content} />
                <Text size="xs" c="dimmed">
                  <Ago at={at} />
                </Text>
              </>
            )}
            acts={(message) => (
              <Group gap="xs">
                <RequeueButton message={message} size="compact-xs" />
                <HandledButton message={message} reference={message.to} size="compact-xs" />
              </Group>
            )}
            empty="No dead letter. A message whose pulse was interrupted for the last time would be here."
          />
          {letters.length > 0 && <OlderRows query={query} count={formatNumberOf(letters.length, "dead letter")} />}
          <Anchor component={Link} href="/messages" size="sm">
            All messages
          </Anchor>
        </Stack>
      )}
    </QueryView>
  );
}
