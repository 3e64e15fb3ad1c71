import { Alert, Button, type ButtonProps, Group, Modal, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { isThere, REMOVAL } from "../server/refresh";
import { useActBarrier } from "../server/session";
import { BarredButton } from "./barred-button";

interface ActButtonProps<Result> extends Pick<ButtonProps, "variant" | "size" | "color" | "leftSection"> {
  children: string;
  /** What it acts on, for screen readers, where several buttons read alike. */
  subject?: string;
  act: () => Promise<Result>;
  /** Said when it has worked. */
  success: string | ((result: Result) => string);
  /** What happens and cannot be taken back; the act then asks first. */
  warning?: ReactNode;
  /** Why it cannot be done now. */
  barrier?: string | undefined;
  /** The agent that is gone afterwards, by its reference. */
  removes?: string;
}

/** So long after a removal its page may still be there, while the page that follows is on its way. */
const REMOVAL_MILLISECONDS = 5_000;

/** A button that changes something on the server. Where it may not, it says why. */
export function ActButton<Result>({ children, subject, act, success, warning, barrier, removes, ...button }: ActButtonProps<Result>) {
  const roleBarrier = useActBarrier();
  const [isAsking, question] = useDisclosure();
  const client = useQueryClient();
  const acting = useMutation({
    mutationFn: act,
    ...(removes !== undefined && { mutationKey: [REMOVAL, removes], gcTime: REMOVAL_MILLISECONDS }),
    onSuccess: (result) => {
      notifications.show({ color: "teal", message: typeof success === "string" ? success : success(result) });
      question.close();
      const isLeft = isThere(client);
      return client.invalidateQueries({ predicate: (query) => query.queryKey[0] !== "me" && isLeft(query) }, { cancelRefetch: false });
    },
    onError: (error) => {
      if (!isAsking) notifications.show({ color: "red", title: `${children} failed`, message: error.message });
    },
  });
  const name = subject === undefined ? children : `${children} ${subject}`;
  const reason = roleBarrier ?? barrier;
  const begin = () => {
    if (acting.isPending) return;
    if (warning === undefined) acting.mutate();
    else {
      acting.reset();
      question.open();
    }
  };
  return (
    <>
      <BarredButton {...button} subject={subject} barrier={reason} onClick={begin} loading={acting.isPending && !isAsking}>
        {children}
      </BarredButton>
      <Modal opened={isAsking} onClose={question.close} title={`${name}?`} centered>
        <Stack>
          <Text size="sm" component="div">
            {warning}
          </Text>
          {acting.error && (
            <Alert color="red" variant="outline" role="alert">
              <Text size="sm" className="foreign-text">
                {acting.error.message}
              </Text>
            </Alert>
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={question.close} data-autofocus>
              Cancel
            </Button>
            <Button color="red" onClick={() => acting.mutate()} loading={acting.isPending}>
              {children}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}
