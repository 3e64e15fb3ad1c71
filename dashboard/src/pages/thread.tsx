import type { ThreadView } from "@circadia/client";
import { Button, Group, MultiSelect, Paper, Stack, Text, Textarea } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useParams } from "wouter";

import { ActButton } from "../parts/act-button";
import { Failure } from "../parts/failure";
import { MessageWakes } from "../parts/message-wakes";
import { ForeignText, Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { ClockTime } from "../parts/time";
import { circadia } from "../server/circadia";
import { findMentions } from "../server/mentions";
import { messagesQuery, readOlderMessages, threadsQuery } from "../server/queries";
import { useActBarrier } from "../server/session";

/** One thread, to read along and to take part as the operator. */
export default function ThreadPage() {
  const { session = "", thread: id = "" } = useParams<{ session: string; thread: string }>();
  const home = decodeURIComponent(session);
  const threads = useQuery(threadsQuery(home));
  return (
    <QueryView query={threads}>
      {(threads) => {
        const thread = threads.find((each) => each.id === id);
        return thread ? <Conversation key={id} thread={thread} /> : <Failure error={new Error(`Session ${home} has no such thread.`)} />;
      }}
    </QueryView>
  );
}

function Conversation({ thread }: { thread: ThreadView }) {
  const path = { session: thread.session, thread: thread.id };
  const messages = useQuery(messagesQuery(thread.session, thread.id));
  return (
    <Stack>
      <PageTitle
        about={`${thread.status}; ${thread.participants.join(", ") || "nobody"} ${thread.participants.length > 1 ? "take" : "takes"} part`}
        acts={
          thread.status === "open" && (
            <ActButton
              act={() => circadia.closeThread({ path })}
              success="The thread is closed."
              warning="Nobody can write in it any more, and participants may fall asleep."
            >
              Close
            </ActButton>
          )
        }
      >
        {thread.name || thread.id}
      </PageTitle>
      <QueryView query={messages}>
        {({ messages, hasOlder }) => (
          <Stack gap="xs" role="log" aria-label="Messages">
            {hasOlder && <OlderMessages session={thread.session} thread={thread.id} />}
            {messages.length === 0 && <Text size="sm">No message yet. Write the first one below.</Text>}
            {messages.map((message) => (
              <Paper key={message.id} withBorder p="xs">
                <Group gap="xs" wrap="nowrap">
                  <Text size="sm" fw={600} component="div" style={{ minWidth: 0 }}>
                    <Name text={message.from} />
                  </Text>
                  <Text size="xs" c="dimmed">
                    <ClockTime at={message.at} />
                  </Text>
                </Group>
                <ForeignText text={message.content} />
                {message.mentions.length > 0 && <MentionWakes message={message.id} from={message.from} />}
              </Paper>
            ))}
          </Stack>
        )}
      </QueryView>
      {thread.status === "open" && <WriteMessage thread={thread} />}
    </Stack>
  );
}

function OlderMessages({ session, thread }: { session: string; thread: string }) {
  const client = useQueryClient();
  const reading = useMutation({
    mutationFn: () => readOlderMessages(client, session, thread),
    onError: (error) => notifications.show({ color: "red", title: "Not read", message: error.message }),
  });
  return (
    <Group>
      <Button size="xs" variant="default" onClick={() => reading.mutate()} loading={reading.isPending}>
        Show older ones
      </Button>
    </Group>
  );
}

/** A button that says of each mentioned agent why it was woken, or was not. */
function MentionWakes({ message, from }: { message: string; from: string }) {
  const [isShown, setShown] = useState(false);
  return (
    <>
      <Button size="compact-xs" variant="default" aria-expanded={isShown} onClick={() => setShown(!isShown)} aria-label={`Who woke by the message from ${from}`}>
        Who woke
      </Button>
      {isShown && <MessageWakes message={message} />}
    </>
  );
}

function WriteMessage({ thread }: { thread: ThreadView }) {
  const client = useQueryClient();
  const barrier = useActBarrier();
  const [content, setContent] = useState("");
  const [mentions, setMentions] = useState<string[]>([]);
  const sending = useMutation({
    mutationFn: (sent: string) =>
      circadia.sendMessage({
        path: { session: thread.session, thread: thread.id },
        body: { from: "operator", content: sent, mentions: [...new Set([...mentions, ...findMentions(sent, thread.participants)])] },
      }),
    onSuccess: (_, sent) => {
      setContent((typed) => (typed === sent ? "" : typed)); // the next message may have begun
      setMentions([]);
      return client.invalidateQueries({ queryKey: ["threads"] });
    },
    onError: (error) => notifications.show({ color: "red", title: "Not sent", message: error.message }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (barrier === undefined) sending.mutate(content);
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="xs">
        <Textarea
          label="Message"
          value={content}
          onChange={(event) => setContent(event.currentTarget.value)}
          autosize
          minRows={2}
          required
          disabled={barrier !== undefined}
        />
        <MultiSelect
          label="Mentions"
          description="A mention can wake the agent; @name in the message mentions too"
          data={thread.participants}
          value={mentions}
          onChange={setMentions}
          disabled={barrier !== undefined}
        />
        <Group>
          <Button type="submit" loading={sending.isPending} disabled={barrier !== undefined}>
            Send as operator
          </Button>
          {barrier && <Text size="sm">{barrier}</Text>}
        </Group>
      </Stack>
    </form>
  );
}
