import { Skeleton, Text } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { isGone } from "../server/circadia";
import { Failure } from "./failure";

interface QueryViewProps<Data> {
  query: UseQueryResult<Data>;
  children: (data: Data) => ReactNode;
  /** Height of the placeholder while the first answer is on its way. */
  height?: number;
}

/** What a query answers; data that is there stays while a newer answer fails, unless it is gone from the server. */
export function QueryView<Data>({ query, children, height = 120 }: QueryViewProps<Data>) {
  if (query.data !== undefined && !isGone(query.error)) {
    return (
      <>
        {query.isError && (
          <Text size="sm" role="status" className="foreign-text" c="var(--tone-bad)">
            Not refreshed: {query.error.message}
          </Text>
        )}
        {children(query.data)}
      </>
    );
  }
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return <Skeleton height={height} aria-busy="true" aria-label="Loading" role="status" />;
}
