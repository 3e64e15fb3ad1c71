import type { WaitingChangeView } from "@circadia/client";
import { Anchor, Group, Stack, Text, Title } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { circadia } from "../server/circadia";
import { formatNumberOf } from "../server/format";
import { proposalsQuery } from "../server/queries";
import { ActButton } from "./act-button";
import { Change } from "./change";
import { Empty } from "./empty";
import { Name } from "./name";
import { OlderRows } from "./older-rows";
import { QueryView } from "./query-view";

/** The changes of passes that wait for a person, by pass, each with what it concerns and rests on. */
export function Proposals() {
  const query = useInfiniteQuery(proposalsQuery);
  return (
    <QueryView query={query}>
      {(changes) =>
        changes.length === 0 ? (
          <Empty>No change of a pass waits. What a pass proposes with review, or may not decide itself, would be here.</Empty>
        ) : (
          <Stack>
            {[...Map.groupBy(changes, (change) => change.pass)].map(([pass, changes]) => (
              <PassProposals key={pass} pass={pass} changes={changes} />
            ))}
            <OlderRows query={query} count={formatNumberOf(changes.length, "proposal")} />
          </Stack>
        )
      }
    </QueryView>
  );
}

function PassProposals({ pass, changes }: { pass: string; changes: readonly WaitingChangeView[] }) {
  const bank = changes[0]!.bank;
  const request = { path: { pass }, body: { numbers: changes.map(({ number }) => number) } };
  const count = formatNumberOf(changes.length, "change");
  return (
    <section aria-label={`Proposals for ${bank}`}>
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h5" style={{ minWidth: 0 }}>
          <Name text={bank} />
        </Title>
        <Group gap="xs">
          <Anchor component={Link} href={`/passes/${pass}`} size="sm">
            The pass
          </Anchor>
          <ActButton
            size="compact-xs"
            subject={`all of ${bank}`}
            act={() => circadia.acceptPass(request)}
            success="The changes are published."
            warning={<Text size="sm">Publishes {count} of this pass. You can undo it.</Text>}
          >
            Accept
          </ActButton>
          <ActButton
            size="compact-xs"
            subject={`all of ${bank}`}
            act={() => circadia.refusePass(request)}
            success="The changes are refused."
            warning={<Text size="sm">Refuses {count} of this pass for good. The record keeps what was refused.</Text>}
          >
            Refuse
          </ActButton>
        </Group>
      </Group>
      <Stack component="ol" gap="xs" m={0} p={0} style={{ listStyle: "none" }} aria-label={`Changes of ${bank}`}>
        {changes.map((change) => (
          <Change key={change.number} bank={bank} change={change} texts={change.texts} barrier={undefined} undoBarrier={undefined} />
        ))}
      </Stack>
    </section>
  );
}
