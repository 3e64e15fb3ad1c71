import type { ApprovalView } from "@circadia/client";
import { Group, Modal, Stack, Text, Textarea } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { circadia } from "../server/circadia";
import { formatNumberOf, formatUsd } from "../server/format";
import { approvalsQuery } from "../server/queries";
import { useActBarrier } from "../server/session";
import { ActButton } from "./act-button";
import { ActForm } from "./act-form";
import { BarredButton } from "./barred-button";
import { AgentLink, ForeignText, Name } from "./name";
import { OlderRows } from "./older-rows";
import { QueryView } from "./query-view";
import { Ago, Lasting } from "./time";
import { WaitingList } from "./waiting-list";

/** The calls that wait for a person. */
export function Approvals() {
  const query = useInfiniteQuery(approvalsQuery);
  return (
    <QueryView query={query}>
      {(approvals) => (
        <Stack gap="xs">
          <WaitingList
            label="Approvals"
            rows={approvals}
            rowKey={({ id }) => id}
            title={({ reference, what, target }) => (
              <>
                <AgentLink reference={reference} />: <Name text={what} mono /> at <Name text={target} />
              </>
            )}
            about={(approval) => <About approval={approval} />}
            acts={(approval) => (
              <Group gap="xs">
                <ActButton
                  size="compact-xs"
                  subject={describe(approval)}
                  act={() => circadia.approveCall({ path: { approval: approval.id } })}
                  success="The call goes on, once."
                >
                  Approve
                </ActButton>
                <RefuseButton approval={approval} />
              </Group>
            )}
            empty="No call waits for a person. A policy with `approve_tools`, `approve_models` or `approve_above_usd` holds calls here."
          />
          {approvals.length > 0 && <OlderRows query={query} count={formatNumberOf(approvals.length, "call")} />}
        </Stack>
      )}
    </QueryView>
  );
}

const describe = ({ reference, what }: ApprovalView): string => `${what} of ${reference}`;

function About({ approval }: { approval: ApprovalView }) {
  const { preview, cut, rule, model, max_usd: usd, requested_at: since, expires_at: until } = approval;
  return (
    <>
      {preview !== "" && <ForeignText text={cut ? `${preview} …` : preview} />}
      <Text size="xs" c="dimmed" component="div">
        {rule === "tool" ? "This tool needs a person's yes" : rule === "model" ? `The model ${model} needs a person's yes` : "Its price needs a person's yes"}
        {usd !== null && `; at most ${formatUsd(usd)}`}. It has waited for <Lasting since={since} />, and expires <Ago at={until} />.
      </Text>
    </>
  );
}

/** Asks for the reason, which the agent gets. */
function RefuseButton({ approval }: { approval: ApprovalView }) {
  const [isOpen, { open, close }] = useDisclosure();
  const [reason, setReason] = useState("");
  const client = useQueryClient();
  const barrier = useActBarrier();
  const refusal = useMutation({
    mutationFn: () => circadia.refuseCall({ path: { approval: approval.id }, body: { reason } }),
    onSuccess: () => {
      notifications.show({ color: "teal", message: "The call is refused; the agent gets the reason." });
      close();
      return client.invalidateQueries({ predicate: (query) => query.queryKey[0] !== "me" }, { cancelRefetch: false });
    },
  });
  return (
    <>
      <BarredButton size="compact-xs" subject={describe(approval)} barrier={barrier} onClick={open}>
        Refuse
      </BarredButton>
      <Modal opened={isOpen} onClose={close} title={`Refuse ${describe(approval)}?`} centered>
        <ActForm mutation={refusal} submitLabel="Refuse">
          <Textarea label="Reason" description="The agent gets it." value={reason} onChange={(event) => setReason(event.currentTarget.value)} required maxLength={1000} autosize minRows={2} data-autofocus />
        </ActForm>
      </Modal>
    </>
  );
}
