import type { WakePairCounts } from "@circadia/client";
import { Box, Flex, Group, List, ScrollArea, Text } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { type KeyboardEvent, type ReactNode, useMemo, useState } from "react";

import { formatNumberOf } from "../server/format";
import { describePair, type GraphAgent, type GraphArrow, layOutWakes, MARK_RADIUS } from "../server/wake-graph";

/** From so many arrows on, only those that somebody points at have numbers. */
const MOST_MARKS = 40;
/** Up to so many names are written level; more are turned, so that they do not cover each other. */
const MOST_LEVEL = 12;
const SIZES = {
  wide: { width: 760, height: 640, radius: 205, letters: 22, turnedLetters: 14, mostAgents: 40 },
  narrow: { width: 380, height: 380, radius: 100, letters: 11, turnedLetters: 10, mostAgents: 16 },
} as const;
type Size = (typeof SIZES)["wide" | "narrow"];
const STEPS: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** Who asks to wake whom today: arrows between the busiest agents, the wider, the more requests. */
export function WakeGraph({ pairs }: { pairs: readonly WakePairCounts[] }) {
  const isNarrow = useMediaQuery("(max-width: 48em)", false, { getInitialValueInEffect: false });
  const size = isNarrow ? SIZES.narrow : SIZES.wide;
  const graph = useMemo(() => layOutWakes(pairs, size.radius, size.mostAgents), [pairs, size]);
  const [chosen, setChosen] = useState<string>();
  const [pointed, setPointed] = useState<WakePairCounts | string>();
  const active = pointed ?? chosen;
  const shown = graph.arrows.filter(({ pair }) => concerns(pair, active));
  return (
    <figure style={{ margin: 0 }}>
      <Flex direction={{ base: "column", lg: "row" }} gap="md">
        <Box flex={{ base: "none", lg: "2 1 0" }} miw={0}>
          <svg
            viewBox={`${-size.width / 2} ${-size.height / 2} ${size.width} ${size.height}`}
            role="radiogroup"
            aria-label="Agents that ask and are asked for wakes"
            style={{ width: "100%", maxHeight: "75vh" }}
            onKeyDown={(event) => (event.key === "Escape" ? setChosen(undefined) : moveFocus(event))}
          >
            {graph.arrows.map((arrow) => (
              <Arrow
                key={`${arrow.pair.from}\n${arrow.pair.to}`}
                arrow={arrow}
                isFaint={!concerns(arrow.pair, active)}
                isMarked={shown.length <= MOST_MARKS}
                onPoint={setPointed}
              />
            ))}
            {graph.agents.map((agent) => (
              <Agent
                key={agent.name}
                agent={agent}
                isChosen={agent.name === chosen}
                isTabStop={agent === (graph.agents.find(({ name }) => name === chosen) ?? graph.agents[0])}
                onChoose={setChosen}
                onPoint={setPointed}
              >
                <AgentLabel agent={agent} size={size} isLevel={graph.agents.length <= MOST_LEVEL} />
              </Agent>
            ))}
          </svg>
        </Box>
        <Numbers active={active} pairs={shown.map(({ pair }) => pair)} />
      </Flex>
      <Legend shown={graph.agents.length} all={graph.agentCount} />
    </figure>
  );
}

/** Whether a pair is one of an agent, or the very pair; undefined means any. */
function concerns({ from, to }: WakePairCounts, active: WakePairCounts | string | undefined): boolean {
  if (active === undefined) return true;
  return typeof active === "string" ? from === active || to === active : active.from === from && active.to === to;
}

/** The graph is one stop of the Tab key, in which the arrow keys go around. */
function moveFocus(event: KeyboardEvent<SVGSVGElement>): void {
  const step = STEPS[event.key];
  if (step === undefined) return;
  event.preventDefault(); // the page does not scroll
  const agents = [...event.currentTarget.querySelectorAll<SVGGElement>("[role=radio]")];
  const present = agents.findIndex((agent) => agent === document.activeElement);
  agents.at((present + step) % agents.length)?.focus();
}

interface ArrowProps {
  arrow: GraphArrow;
  isFaint: boolean;
  /** Whether the number of refused requests is shown. */
  isMarked: boolean;
  onPoint: (pair: WakePairCounts | undefined) => void;
}

function Arrow({ arrow: { pair, line, head, middle, width, refused }, isFaint, isMarked, onPoint }: ArrowProps) {
  const colour = refused > 0 ? "var(--tone-bad)" : "var(--tone-asleep)";
  return (
    <g aria-hidden="true" opacity={isFaint ? 0.1 : 0.85} onPointerEnter={() => onPoint(pair)} onPointerLeave={() => onPoint(undefined)}>
      <path d={line} fill="none" stroke="transparent" strokeWidth={14} />
      <path d={line} fill="none" stroke={colour} strokeWidth={width} strokeDasharray={refused > 0 ? "6 4" : undefined} />
      <polygon points={head} fill={colour} />
      {refused > 0 && isMarked && !isFaint && <RefusedMark {...middle} count={refused} />}
    </g>
  );
}

interface AgentProps {
  agent: GraphAgent;
  isChosen: boolean;
  isTabStop: boolean;
  onChoose: (name: string) => void;
  onPoint: (name: string | undefined) => void;
  children: ReactNode;
}

function Agent({ agent: { name, x, y, asks, isAsked }, isChosen, isTabStop, onChoose, onPoint, children }: AgentProps) {
  return (
    <g
      role="radio"
      aria-checked={isChosen}
      aria-label={`${name}: ${formatNumberOf(asks, "request")} made, ${isAsked} received`}
      tabIndex={isTabStop ? 0 : -1}
      className="graph-agent"
      onFocus={() => onChoose(name)}
      onPointerEnter={() => onPoint(name)}
      onPointerLeave={() => onPoint(undefined)}
    >
      <circle cx={x} cy={y} r={MARK_RADIUS + 6} fill="transparent" />
      <circle className="graph-mark" cx={x} cy={y} r={MARK_RADIUS} />
      {children}
    </g>
  );
}

interface AgentLabelProps {
  agent: GraphAgent;
  size: Size;
  isLevel: boolean;
}

function AgentLabel({ agent: { name, angle }, size, isLevel }: AgentLabelProps) {
  const isLeft = Math.cos(angle) < -0.01;
  const isMiddle = isLevel && Math.abs(Math.cos(angle)) < 0.01;
  const distance = size.radius + MARK_RADIUS + (isMiddle ? 12 : 6);
  const degrees = (angle * 180) / Math.PI + (isLeft ? 180 : 0);
  const text = [...name];
  const letters = isLevel ? size.letters : size.turnedLetters;
  return (
    <text
      x={isLevel ? Math.cos(angle) * distance : isLeft ? -distance : distance}
      y={isLevel ? Math.sin(angle) * distance : 0}
      transform={isLevel ? undefined : `rotate(${degrees.toFixed(2)})`}
      dominantBaseline="central"
      textAnchor={isMiddle ? "middle" : isLeft ? "end" : "start"}
      fontSize="12"
      fill="var(--mantine-color-text)"
      style={{ unicodeBidi: "isolate" }}
    >
      <title>{name}</title>
      {text.length > letters ? `${text.slice(0, letters - 1).join("")}…` : name}
    </text>
  );
}

function RefusedMark({ x, y, count }: { x: number; y: number; count: number }) {
  return (
    <>
      <circle cx={x} cy={y} r={9} fill="var(--mantine-color-body)" stroke="var(--tone-bad)" strokeWidth="2" />
      <text x={x} y={y} dominantBaseline="central" textAnchor="middle" fontSize="10" fontWeight="600" fill="var(--tone-bad)">
        {count > 99 ? "99+" : count}
      </text>
    </>
  );
}

function Legend({ shown, all }: { shown: number; all: number }) {
  return (
    <figcaption>
      <Group gap="xs" wrap="nowrap" mt="sm">
        <svg width="20" height="20" viewBox="-10 -10 20 20" aria-hidden="true" style={{ flexShrink: 0 }}>
          <RefusedMark x={0} y={0} count={1} />
        </svg>
        <Text size="sm">
          An arrow leads from who asks to who is asked, today in UTC; the wider, the more requests. If some were refused, it
          is red and dashed, with their number in a circle.
          {all > shown && ` The ${shown} busiest of ${all} are drawn.`} The table below has the numbers too.
        </Text>
      </Group>
    </figcaption>
  );
}

function Numbers({ active, pairs }: { active: WakePairCounts | string | undefined; pairs: readonly WakePairCounts[] }) {
  return (
    <Box flex={{ base: "none", lg: "1 1 0" }} miw={0} role="group" aria-label="Numbers">
      {active === undefined ? (
        <Text size="sm">Choose an agent, or point at an arrow, to see its numbers.</Text>
      ) : (
        <ScrollArea.Autosize mah={400} type="auto" viewportProps={{ tabIndex: 0 }}>
          <Text size="sm" fw={600} className="foreign-text">
            {typeof active === "string" ? active : `${active.from} → ${active.to}`}
          </Text>
          <List size="sm">
            {pairs
              .toSorted((one, other) => other.total - one.total)
              .map((pair) => (
                <List.Item key={`${pair.from}\n${pair.to}`} className="foreign-text">
                  {describePair(pair)}
                </List.Item>
              ))}
          </List>
        </ScrollArea.Autosize>
      )}
    </Box>
  );
}
