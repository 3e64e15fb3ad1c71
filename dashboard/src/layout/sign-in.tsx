import { Alert, Button, Center, Code, Paper, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { signIn } from "../server/circadia";
import { sessionQuery } from "../server/session";

/** Exchange a token for a session; the token is not kept in the page. */
export function SignIn({ hasEnded }: { hasEnded: boolean }) {
  const client = useQueryClient();
  const [token, setToken] = useState("");
  const entering = useMutation({
    mutationFn: () => signIn(token.trim()),
    onSuccess: () => {
      setToken("");
      return client.invalidateQueries({ queryKey: sessionQuery.queryKey });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (token.trim()) entering.mutate();
  };
  return (
    <Center mih="100vh" p="md" component="main">
      <Paper withBorder p="xl" maw={440} w="100%">
        <form onSubmit={submit}>
          <Stack>
            <Title order={1} size="h3">
              Sign in to Circadia
            </Title>
            {hasEnded && (
              <Alert color="orange" variant="outline" role="alert" title="You are signed out">
                <Text size="sm">Your token was revoked, or your sign-in has expired. Sign in again to return to this page.</Text>
              </Alert>
            )}
            <Text size="sm">
              Use your own token, or the server&apos;s, which is in <Code>admin.token</Code> in its data folder.{" "}
              <Code>circadia tokens add NAME --role viewer</Code> makes one for a person.
            </Text>
            <PasswordInput
              label="Token"
              value={token}
              onChange={(event) => setToken(event.currentTarget.value)}
              autoComplete="off"
              autoFocus
              required
            />
            {entering.isError && (
              <Alert color="red" role="alert" title="Not signed in">
                <Text size="sm">{entering.error.message}</Text>
              </Alert>
            )}
            <Button type="submit" loading={entering.isPending}>
              Sign in
            </Button>
          </Stack>
        </form>
      </Paper>
    </Center>
  );
}
