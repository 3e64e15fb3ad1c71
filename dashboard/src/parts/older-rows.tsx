import { Button, Group, Text } from "@mantine/core";
import type { UseInfiniteQueryResult } from "@tanstack/react-query";

interface OlderRowsProps {
  query: Pick<UseInfiniteQueryResult, "hasNextPage" | "isFetchingNextPage" | "fetchNextPage">;
  /** Number of rows with their noun. */
  count: string;
  /** Words of the button. */
  more?: string;
  /** Shows the newest rows again, where the list has dropped them. */
  onNewest?: (() => void) | undefined;
}

/** How many rows a list shows, and a button that reads older ones. */
export function OlderRows({ query, count, more = "Show older ones", onNewest }: OlderRowsProps) {
  return (
    <Group mt="xs">
      <Text size="sm" role="status">
        {count}
        {query.hasNextPage && ", there are more"}
        {onNewest && "; newer ones are not held any more"}
      </Text>
      {query.hasNextPage && (
        <Button size="xs" variant="default" onClick={() => void query.fetchNextPage()} loading={query.isFetchingNextPage}>
          {more}
        </Button>
      )}
      {onNewest && (
        <Button size="xs" variant="default" onClick={onNewest}>
          Back to the newest
        </Button>
      )}
    </Group>
  );
}
