import { Anchor, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { waitingDreamsQuery } from "../server/queries";
import { DreamActs } from "./dream-acts";
import { Name } from "./name";
import { QueryView } from "./query-view";
import { Ago } from "./time";
import { WaitingList } from "./waiting-list";

/** Dreams over folders whose changes a person accepts or refuses. */
export function WaitingDreams() {
  const query = useQuery(waitingDreamsQuery);
  return (
    <QueryView query={query}>
      {(dreams) => (
        <WaitingList
          label="Dreams"
          rows={dreams}
          rowKey={(dream) => dream.id}
          title={(dream) => (
            <Anchor component={Link} href={`/dreams/${dream.id}`} className="name" size="sm">
              <Name text={`Dream over ${dream.inputs[0]!.name}`} />
            </Anchor>
          )}
          about={(dream) => (
            <>
              <Text span size="sm" className="foreign-text">
                {dream.summary}
              </Text>
              , <Ago at={dream.ended_at ?? dream.created_at} />
            </>
          )}
          acts={(dream) => <DreamActs dream={dream} />}
          empty="No dream waits. What a dream over a memory folder proposes would be here."
        />
      )}
    </QueryView>
  );
}
