import { Alert, Button, Group, Stack, Text } from "@mantine/core";
import type { UseMutationResult } from "@tanstack/react-query";
import type { FormEvent, ReactNode } from "react";

import { useActBarrier } from "../server/session";

interface ActFormProps {
  /** What the form does when it is sent. */
  mutation: Pick<UseMutationResult<unknown, Error, void>, "mutate" | "isPending" | "error">;
  submitLabel: string;
  children: ReactNode;
}

/** A form that changes something on the server. Where it may not, or could not, it says why. */
export function ActForm({ mutation, submitLabel, children }: ActFormProps) {
  const barrier = useActBarrier();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (barrier === undefined) mutation.mutate();
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        {barrier && (
          <Text size="sm" role="note">
            {barrier}
          </Text>
        )}
        {children}
        {mutation.error && (
          <Alert color="red" variant="outline" role="alert">
            <Text size="sm">{mutation.error.message}</Text>
          </Alert>
        )}
        <Group justify="flex-end">
          <Button type="submit" loading={mutation.isPending} disabled={barrier !== undefined}>
            {submitLabel}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
