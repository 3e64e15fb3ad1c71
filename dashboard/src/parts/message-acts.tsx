import type { InboxItem, RequeueResult, UnhandledMessage } from "@circadia/client";

import { circadia, isConflict, isGone } from "../server/circadia";
import { formatNumberOf } from "../server/format";
import { ActButton } from "./act-button";

interface MessageButtonProps<Message> {
  message: Message;
  /** Called when it is done. */
  onDone?: () => void;
  size?: "xs" | "compact-xs";
}

/** Marks a message of an agent as handled, so that the agent does not read it. */
export function HandledButton({ message, reference, onDone, size = "xs" }: MessageButtonProps<InboxItem> & { reference: string }) {
  return (
    <ActButton
      size={size}
      subject={`the message from ${message.from}`}
      act={async () => {
        const result = await circadia.ackMessage({ path: { agent: reference, message: message.id } });
        onDone?.();
        return result;
      }}
      success={({ changed }) => (changed ? "The message is marked as handled." : "Nothing was changed: it is not in the inbox any more.")}
      warning={`The agent will not read it: ${message.content.slice(0, 200)}`}
    >
      Mark as handled
    </ActButton>
  );
}

/** Returns a dead letter to its inbox, with new attempts. */
export function RequeueButton({ message, onDone, size = "xs" }: MessageButtonProps<UnhandledMessage>) {
  return (
    <ActButton
      size={size}
      subject={`the message from ${message.from} to ${message.to}`}
      act={async () => {
        const result = await circadia.requeueMessage({ path: { message: message.id } });
        onDone?.();
        return result;
      }}
      success={(result) => describeRequeue([result])}
    >
      Requeue
    </ActButton>
  );
}

/** Returns several dead letters to their inboxes. */
export function RequeueAllButton({ messages }: { messages: readonly UnhandledMessage[] }) {
  const ids = [...new Set(messages.map(({ id }) => id))]; // a message of a thread may be dead in several inboxes
  const count = formatNumberOf(ids.length, "message");
  return (
    <ActButton
      subject={count}
      act={() => requeueAll(ids)}
      success={describeRequeue}
      {...(ids.length > 1 && { warning: `${count} are unread again. Those of high priority ask for a wake of their agents.` })}
    >
      Requeue
    </ActButton>
  );
}

/** Requeue one after the other; those that somebody has handled meanwhile stop none of the others. */
async function requeueAll(ids: readonly string[]): Promise<RequeueResult[]> {
  const results: RequeueResult[] = [];
  const reasons: string[] = [];
  for (const message of ids) {
    try {
      results.push(await circadia.requeueMessage({ path: { message } }));
    } catch (error) {
      if (!isGone(error) && !isConflict(error)) throw error;
      reasons.push((error as Error).message);
    }
  }
  if (reasons.length > 0) throw new Error(`${reasons.length} of ${ids.length} were not requeued: ${reasons[0]}`);
  return results;
}

function describeRequeue(results: readonly RequeueResult[]): string {
  const changed = results.filter(({ requeued }) => requeued.length > 0).length;
  const wakes = results.flatMap(({ wakes }) => wakes).length;
  if (changed === 0) return "Nothing was changed: somebody has requeued it already.";
  const requested = wakes === 0 ? "" : `; ${formatNumberOf(wakes, "wake")} requested`;
  return `${formatNumberOf(changed, "message")} unread again${requested}.`;
}
