import type { AccessTokenCreated, AccessTokenView } from "@circadia/client";
import { Button, Code, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { ActButton } from "../parts/act-button";
import { Empty } from "../parts/empty";
import { Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { DateTime } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { circadia } from "../server/circadia";
import { tokensQuery } from "../server/queries";

const COLUMNS: Column<AccessTokenView>[] = [
  { id: "name", header: "Person", width: "2fr", cell: ({ name }) => <Name text={name} />, sortValue: ({ name }) => name },
  { id: "role", header: "Role", width: "6rem", cell: ({ role }) => role, sortValue: ({ role }) => role },
  { id: "at", header: "Since", width: "3fr", cell: ({ created_at: at }) => <DateTime at={at} />, sortValue: ({ created_at: at }) => at, isWideOnly: true },
  { id: "by", header: "Made by", width: "2fr", cell: ({ created_by: by }) => <Name text={by} />, sortValue: ({ created_by: by }) => by, isWideOnly: true },
  {
    id: "acts",
    header: "Acts",
    width: "6rem",
    cell: ({ name }) => (
      <ActButton
        size="compact-xs"
        subject={`the token of ${name}`}
        act={() => circadia.revokeToken({ path: { name } })}
        success={`The token of ${name} is revoked.`}
        warning={`${name} is signed out everywhere at once.`}
      >
        Revoke
      </ActButton>
    ),
  },
];

/** The tokens of people, without their secrets. */
export default function AccessPage() {
  const tokens = useQuery(tokensQuery);
  const [created, setCreated] = useState<AccessTokenCreated>();
  return (
    <Stack>
      <PageTitle about="Tokens of people. A viewer sees everything and changes nothing; an operator acts under their own name.">People</PageTitle>
      <AddPerson onCreated={setCreated} />
      {created && <PersonToken token={created} onClose={() => setCreated(undefined)} />}
      <QueryView query={tokens}>
        {(rows) => (
          <VirtualTable
            label="Tokens of people"
            rows={rows}
            rowKey={({ name }) => name}
            columns={COLUMNS}
            initialSort={{ column: "name", isDescending: false }}
            empty={<Empty command="circadia tokens add ann --role viewer">Nobody has a token of their own yet.</Empty>}
          />
        )}
      </QueryView>
    </Stack>
  );
}

/** A new token, shown this once. */
function PersonToken({ token: { name, token }, onClose }: { token: AccessTokenCreated; onClose: () => void }) {
  return (
    <Stack gap="xs" role="status">
      <Text size="sm">
        Give this token to <bdi>{name}</bdi> now: the server stores only its hash, and nobody can show it again.
      </Text>
      <Code block tabIndex={0} aria-label="Token">
        {token}
      </Code>
      <Group>
        <Button size="xs" variant="default" onClick={onClose}>
          Done
        </Button>
      </Group>
    </Stack>
  );
}

function AddPerson({ onCreated }: { onCreated: (token: AccessTokenCreated) => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<"viewer" | "operator">("viewer");
  return (
    <Group align="flex-end">
      <TextInput label="Name" value={name} onChange={(event) => setName(event.currentTarget.value)} />
      <Select label="Role" data={["viewer", "operator"]} value={role} onChange={(value) => setRole(value === "operator" ? value : "viewer")} allowDeselect={false} w="8rem" />
      <ActButton
        act={() => circadia.createToken({ body: { name: name.trim(), role } }).then(onCreated)}
        success={`${name.trim()} has a token.`}
        barrier={name.trim() === "" ? "Write the name of the person first." : undefined}
      >
        Make a token
      </ActButton>
    </Group>
  );
}
