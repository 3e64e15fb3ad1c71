import type { WakePairCounts } from "@circadia/client";

import { formatNumberOf } from "./format.ts";

interface Point {
  x: number;
  y: number;
}

export interface GraphAgent extends Point {
  name: string;
  /** Direction from the centre, in radians. */
  angle: number;
  /** Requests by this agent, and for it. */
  asks: number;
  isAsked: number;
}

export interface GraphArrow {
  pair: WakePairCounts;
  /** Its line, as SVG takes it; its head, as the points of a triangle; and the middle of the line. */
  line: string;
  head: string;
  middle: Point;
  width: number;
  refused: number;
}

interface WakeGraph {
  agents: GraphAgent[];
  arrows: GraphArrow[];
  /** Number of all agents and other senders; the busiest are in the graph. */
  agentCount: number;
}

/** Radius of an agent's mark. */
export const MARK_RADIUS = 8;
const THINNEST = 1;
/** Widest arrow in a graph of few agents, and of many. */
const THICKEST = 6;
const THICKEST_OF_MANY = 3;
const MANY = 20;
/** How far an arrow leaves the straight line: towards the centre, and to its own side of the arrow back. */
const PULL = 0.4;
const BEND = 0.12;

/** Return the names with the highest sums, and how many names there are. */
export function findBusiest(counts: readonly (readonly [string, number])[], most: number): [string[], number] {
  const totals = new Map<string, number>();
  for (const [name, count] of counts) totals.set(name, (totals.get(name) ?? 0) + count);
  const names = [...totals].sort(([, one], [, other]) => other - one).map(([name]) => name);
  return [names.slice(0, most), names.length];
}

/** Put the busiest senders and targets on a circle around (0, 0), in the order of their names, with arrows for their requests. */
export function layOutWakes(pairs: readonly WakePairCounts[], radius: number, most: number): WakeGraph {
  const counts = pairs.flatMap(({ from, to, total }) => [[from, total], [to, total]] as const);
  const [busiest, agentCount] = findBusiest(counts, most);
  const places = new Map(busiest.toSorted().map((name, index) => [name, place(name, index / busiest.length, radius)]));
  const thickest = busiest.length < MANY ? THICKEST : THICKEST_OF_MANY;
  const largest = Math.max(...pairs.map(({ total }) => total));
  const arrows: GraphArrow[] = [];
  for (const pair of pairs) {
    const from = places.get(pair.from);
    const to = places.get(pair.to);
    if (from === undefined || to === undefined) continue;
    from.asks += pair.total;
    to.isAsked += pair.total;
    const width = THINNEST + (thickest - THINNEST) * Math.sqrt(pair.total / largest);
    arrows.push({ pair, width, refused: pair.decisions.refused ?? 0, ...drawArrow(from, to, width) });
  }
  return { agents: [...places.values()], arrows, agentCount };
}

function place(name: string, share: number, radius: number): GraphAgent {
  const angle = (share - 0.25) * 2 * Math.PI; // the first one is at the top
  return { name, angle, ...turn(angle, radius), asks: 0, isAsked: 0 };
}

function drawArrow(from: GraphAgent, to: GraphAgent, width: number): Pick<GraphArrow, "line" | "head" | "middle"> {
  const [one, other] = from === to ? bendBack(from) : bendInwards(from, to);
  const start = step(from, one, MARK_RADIUS);
  const tip = step(to, other, MARK_RADIUS + 1);
  const size = 5 + 1.5 * width;
  const base = step(tip, other, size);
  const side = Math.atan2(base.y - tip.y, base.x - tip.x) + Math.PI / 2;
  const corners = [side, side + Math.PI].map((angle) => add(base, turn(angle, size / 2)));
  return {
    line: `M${format(start)}C${[one, other, base].map(format).join(" ")}`,
    head: [tip, ...corners].map(format).join(" "),
    middle: {
      x: (start.x + 3 * one.x + 3 * other.x + base.x) / 8,
      y: (start.y + 3 * one.y + 3 * other.y + base.y) / 8,
    },
  };
}

/** Return the two control points of an arrow to another agent. */
function bendInwards(from: Point, to: Point): [Point, Point] {
  const side = { x: BEND * (from.y - to.y), y: BEND * (to.x - from.x) };
  const bend = (point: Point) => add({ x: point.x * PULL, y: point.y * PULL }, side);
  return [bend(from), bend(to)];
}

/** Return the two control points of an arrow from an agent to itself. */
function bendBack({ x, y, angle }: GraphAgent): [Point, Point] {
  const inner = { x: 0.7 * x, y: 0.7 * y };
  return [angle + Math.PI / 2, angle - Math.PI / 2].map((across) => add(inner, turn(across, 28))) as [Point, Point];
}

function turn(angle: number, length: number): Point {
  return { x: Math.cos(angle) * length, y: Math.sin(angle) * length };
}

function add(one: Point, other: Point): Point {
  return { x: one.x + other.x, y: one.y + other.y };
}

/** Return the point that is so far from one point towards another. */
function step(from: Point, towards: Point, length: number): Point {
  return add(from, turn(Math.atan2(towards.y - from.y, towards.x - from.x), length));
}

function format({ x, y }: Point): string {
  return `${x.toFixed(1)},${y.toFixed(1)}`;
}

/** Return a pair's numbers in words. */
export function describePair({ from, to, total, decisions }: WakePairCounts): string {
  const parts = Object.entries(decisions).map(([decision, count]) => `${count} ${decision}`);
  return `${from} asks ${to}: ${formatNumberOf(total, "request")}, ${parts.join(", ")}`;
}
