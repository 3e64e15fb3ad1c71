import type { EpisodeView } from "@circadia/client";
import { Stack, Text } from "@mantine/core";

import { Facts } from "./facts";
import { ForeignText, Name } from "./name";
import { DateTime } from "./time";

/** One thing that was said, with its source, its trust and its demotions. */
export function EpisodeDetails({ episode }: { episode: EpisodeView }) {
  const metadata = JSON.stringify(episode.metadata);
  return (
    <Stack>
      <ForeignText text={episode.text} />
      <Facts
        label="About the episode"
        facts={{
          Speaker: <Name text={episode.speaker} />,
          Trust: episode.trust,
          Kind: episode.incomplete ? `${episode.kind}, the start of an interrupted answer` : episode.kind,
          When: <DateTime at={episode.at} />,
          Conversation: episode.conversation === null ? "none" : <Name text={episode.conversation} />,
          Importance: episode.importance ?? "not judged",
          Repeats: episode.repeats,
          Metadata: metadata === "{}" ? "none" : <ForeignText text={metadata} />,
          Id: <Name text={episode.id} mono />,
        }}
      />
      {episode.stale.map((demotion) => (
        <Text key={demotion.evidence} size="sm">
          Counts × {demotion.weight} in searches since <DateTime at={demotion.at} />, by <Name text={demotion.by} />
          {demotion.reason && <ForeignText text={demotion.reason} />}
        </Text>
      ))}
    </Stack>
  );
}
