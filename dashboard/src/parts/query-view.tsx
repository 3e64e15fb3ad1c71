import { Skeleton } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { Failure } from "./failure";

interface QueryViewProps<Data> {
  query: UseQueryResult<Data>;
  children: (data: Data) => ReactNode;
  /** Height of the placeholder while the first answer is on its way. */
  height?: number;
}

/** What a query answers; data that is there stays while a newer answer fails. */
export function QueryView<Data>({ query, children, height = 120 }: QueryViewProps<Data>) {
  if (query.data !== undefined) return children(query.data);
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return <Skeleton height={height} aria-busy="true" aria-label="Loading" role="status" />;
}
