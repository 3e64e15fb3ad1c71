import { Button, Code, CopyButton, Group, Stack, Text } from "@mantine/core";

/** A token, shown this once, with the two settings in which an agent uses it. */
export function NewToken({ agent, token, onClose }: { agent: string; token: string; onClose: () => void }) {
  return (
    <Stack>
      <Text size="sm">
        Copy the token of <bdi>{agent}</bdi> now: the server stores only its hash, and nobody can show it again.
      </Text>
      <Code block tabIndex={0} aria-label="Token">
        {token}
      </Code>
      <Text size="sm">For an agent that calls OpenAI:</Text>
      <Code block tabIndex={0} aria-label="Settings">
        {`OPENAI_BASE_URL=${location.origin}/llm/openai/v1\nOPENAI_API_KEY=${token}`}
      </Code>
      <Group justify="flex-end">
        <CopyButton value={token}>
          {({ copied, copy }) => (
            <Button variant="default" onClick={copy}>
              {copied ? "Copied" : "Copy the token"}
            </Button>
          )}
        </CopyButton>
        <Button onClick={onClose}>Done</Button>
      </Group>
    </Stack>
  );
}
