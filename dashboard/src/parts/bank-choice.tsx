import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useSearchParams } from "wouter";

import { banksQuery } from "../server/memory-queries";
import { Empty } from "./empty";
import { QueryView } from "./query-view";

/** A choice of one bank, which the address keeps, and what is shown of that bank. */
export function BankChoice({ children }: { children: (bank: string) => ReactNode }) {
  const banks = useQuery(banksQuery);
  const [params, setParams] = useSearchParams();
  return (
    <QueryView query={banks}>
      {({ banks }) => {
        const names = banks.map(({ name }) => name);
        const bank = params.get("bank") ?? names[0];
        if (bank === undefined) return <Empty command="circadia banks add team">There is no bank yet. The first turn of an agent with a bank in its policy makes one, or you do:</Empty>;
        return (
          <>
            <Select
              label="Bank"
              data={[...new Set([bank, ...names])]}
              value={bank}
              onChange={(chosen) => chosen !== null && setParams({ bank: chosen }, { replace: true })}
              allowDeselect={false}
              searchable
              limit={200}
              maw={360}
            />
            {children(bank)}
          </>
        );
      }}
    </QueryView>
  );
}
