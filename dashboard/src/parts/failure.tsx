import { Alert, Button, Group, Text } from "@mantine/core";

import { Icon } from "./icon";

/** Something that could not be shown, with the reason and another try. */
export function Failure({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  return (
    <Alert color="red" variant="outline" title="This cannot be shown" icon={<Icon name="warning" />} role="alert">
      <Group justify="space-between">
        <Text size="sm" className="foreign-text">
          {error.message}
        </Text>
        {onRetry && (
          <Button variant="default" size="xs" onClick={onRetry}>
            Try again
          </Button>
        )}
      </Group>
    </Alert>
  );
}
