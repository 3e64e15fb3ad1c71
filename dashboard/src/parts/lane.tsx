import type { TimelineSpan } from "@circadia/client";
import { memo, type PointerEvent, useMemo, useState } from "react";

import { describeLane, describeSpan, drawLane, type Layer, LAYERS, spanAt, sumLane, ticksOf, type Window } from "../server/timeline";

const HEIGHT = 22;
const TOP = 3;
const BAR = 12;
const STRIPE = 4;
/** How high each layer is: a held call is a stripe, so that the sleep behind it is seen. */
const PLACES: Record<Layer, string> = {
  awake: `translate(0 ${TOP}) scale(1 ${BAR})`,
  asleep: `translate(0 ${TOP}) scale(1 ${BAR})`,
  held: `translate(0 ${TOP + BAR - STRIPE}) scale(1 ${STRIPE})`,
  pulse: `translate(0 ${TOP - 2}) scale(1 ${BAR + 4})`,
  failed: `translate(0 ${TOP - 2}) scale(1 ${BAR + 4})`,
};
/** A mark is found this many pixels beside it. */
const REACH = 4;

interface LaneBarProps {
  label: string;
  spans: readonly TimelineSpan[];
  window: Window;
  now: number;
  width: number;
}

/** One agent's time from left to right: what it did, what woke it, and what was refused. */
export const LaneBar = memo(function LaneBar({ label, spans, window, now, width }: LaneBarProps) {
  const [hint, setHint] = useState("");
  const { paths, marks } = useMemo(() => drawLane(spans, window, now, width), [spans, window, now, width]);
  const grid = useMemo(() => ticksOf(window, width).map(({ x }) => `M${x.toFixed(1)} 0v${HEIGHT}`), [window, width]);
  const words = useMemo(() => describeLane(sumLane(spans, window, now)), [spans, window, now]);
  const point = ({ nativeEvent, currentTarget }: PointerEvent<HTMLDivElement>) => {
    const share = (nativeEvent.clientX - currentTarget.getBoundingClientRect().left) / width;
    const at = window.since + share * (window.until - window.since);
    const span = spanAt(spans, at, now, (REACH / width) * (window.until - window.since));
    setHint(span === undefined ? "" : describeSpan(span, now));
  };
  return (
    <div title={hint} onPointerMove={point}>
      <svg width={width} height={HEIGHT} role="img" aria-label={`${label}: ${words}`} style={{ display: "block" }}>
        <path className="lane-grid" d={grid.join("")} />
        {now < window.until && <path className="lane-now" d={`M${(((now - window.since) / (window.until - window.since)) * width).toFixed(1)} 0v${HEIGHT}`} />}
        {LAYERS.map(
          (layer) =>
            paths[layer] && (
              <path
                key={layer}
                d={paths[layer]}
                className={`span-${layer}`}
                transform={PLACES[layer]}
              />
            ),
        )}
        {marks.map(({ x, isRefusal }) =>
          isRefusal ? (
            <path key={`${x} refused`} className="mark-refusal" d={`M${x - 3} ${HEIGHT - 6}l6 6m0-6l-6 6`} />
          ) : (
            <path key={`${x} woken`} className="mark-wake" d={`M${x} ${HEIGHT - 6}l-3.5 5h7z`} />
          ),
        )}
      </svg>
    </div>
  );
});
