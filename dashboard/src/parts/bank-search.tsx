import type { HitView, Layer, Trust } from "@circadia/client";
import { Anchor, Button, Group, MultiSelect, Paper, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Link } from "wouter";

import { formatNumberOf } from "../server/format";
import { searchQuery } from "../server/queries";
import { useView } from "../server/view";
import { Empty } from "./empty";
import { ForeignText, Name } from "./name";
import { QueryView } from "./query-view";
import { ScoreParts } from "./score-parts";
import { TextFilter } from "./text-filter";
import { DateTime } from "./time";

const TRUSTS: Trust[] = ["person", "agent", "tool", "external"];
const LAYERS: Layer[] = ["episodes", "notes"];
/** Further filters of a search, in the address as in the API. */
const MORE = { speaker: "Speaker", conversation: "Conversation", since: "Since", until: "Until", as_of: "As of" };

/** What the bank finds for a question, and what each hit's score is made of. */
export function BankSearch({ bank }: { bank: string }) {
  const [params, setParts] = useView();
  const question = params.get("q") ?? "";
  const [text, setText] = useState(question);
  const layer = LAYERS.find((each) => each === params.get("layer")) ?? "both";
  const trust = TRUSTS.filter((each) => params.get("trust")?.split(",").includes(each));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setParts({ q: text.trim() });
  };
  const more = Object.fromEntries(Object.keys(MORE).map((name) => [name, params.get(name)]).filter(([, value]) => value));
  const filter = { ...more, ...(layer !== "both" && { layer: [layer] }), ...(trust.length > 0 && { trust }) };
  return (
    <Stack>
      <form onSubmit={submit}>
        <Group align="flex-end">
          <TextInput
            label="Question or words"
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            style={{ flex: "3 1 16rem" }}
          />
          <MultiSelect
            label="Trust"
            data={TRUSTS}
            value={trust}
            onChange={(chosen) => setParts({ trust: chosen.join() })}
            placeholder={trust.length === 0 ? "any" : ""}
            style={{ flex: "1 1 10rem" }}
          />
          <SegmentedControl
            aria-label="Layer"
            data={["both", ...LAYERS]}
            value={layer}
            onChange={(value) => setParts({ layer: value === "both" ? "" : value })}
          />
          <Button type="submit">Search</Button>
        </Group>
      </form>
      <Group align="flex-end" gap="xs">
        {Object.entries(MORE).map(([name, label]) => (
          <TextFilter key={name} name={name} label={label} />
        ))}
      </Group>
      {question === "" ? (
        <Empty command={`circadia banks search ${bank} "when do we release"`}>
          Search as an agent does: by words and by meaning. The same from a terminal:
        </Empty>
      ) : (
        <Hits bank={bank} question={question} filter={filter} />
      )}
    </Stack>
  );
}

function Hits({ bank, question, filter }: { bank: string; question: string; filter: Parameters<typeof searchQuery>[2] }) {
  const hits = useQuery(searchQuery(bank, question, filter));
  return (
    <QueryView query={hits}>
      {(hits) => (
        <>
          <Text size="sm" role="status">
            {hits.length === 0 ? "Nothing is found. Try other words, or remove a filter." : `${formatNumberOf(hits.length, "hit")}, the best first`}
          </Text>
          <Stack component="ol" gap="xs" m={0} p={0} style={{ listStyle: "none" }} aria-label="Hits">
            {hits.map((hit) => (
              <Hit key={`${hit.id}/${hit.passage}`} bank={bank} hit={hit} />
            ))}
          </Stack>
        </>
      )}
    </QueryView>
  );
}

function Hit({ bank, hit }: { bank: string; hit: HitView }) {
  const [params] = useView();
  const opened = new URLSearchParams(params); // the filters stay
  opened.set("note", hit.id);
  const address = `/banks/${encodeURIComponent(bank)}?${opened}`;
  return (
    <Paper component="li" withBorder p="sm">
      <ForeignText text={hit.text} />
      <Group gap="md" mt={4}>
        <Text size="xs" maw="100%">
          {hit.kind} from {hit.speaker === null ? "passes" : <Name text={hit.speaker} />}, trust: {hit.trust}
          {hit.passage !== null && `, passage ${hit.passage} of ${hit.passages}`}
          {hit.superseded && ", no longer valid"}
          {hit.times > 1 && `, ${hit.times} times`}
        </Text>
        <Text size="xs">
          <DateTime at={hit.at} />
        </Text>
        {hit.layer === "notes" && (
          <Anchor component={Link} size="xs" href={address}>
            Evidence of {formatNumberOf(hit.evidence.length, "episode")}
          </Anchor>
        )}
      </Group>
      <ScoreParts score={hit.score} parts={hit.parts} />
    </Paper>
  );
}
