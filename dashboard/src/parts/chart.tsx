import { useElementSize } from "@mantine/hooks";
import { type PointerEvent, type ReactNode, type SVGAttributes, useState } from "react";

interface Tip {
  text: string;
  left: number;
  top: number;
}

/** What shows a text beside the pointer while that is over an element. */
type TipHandlers = Pick<SVGAttributes<SVGElement>, "onPointerEnter" | "onPointerMove" | "onPointerLeave">;

interface ChartProps {
  /** What a screen reader says in place of the picture. */
  label: string;
  height: number;
  children: (width: number, tip: (text: string) => TipHandlers) => ReactNode;
  caption?: ReactNode;
}

/** A picture that is drawn for the width that it has, so that its letters have their size, with texts at the pointer. */
export function Chart({ label, height, children, caption }: ChartProps) {
  const { ref, width } = useElementSize<HTMLElement>();
  const [tip, setTip] = useState<Tip>();
  const tipOf = (text: string): TipHandlers => {
    const show = (event: PointerEvent<SVGElement>) => {
      const frame = event.currentTarget.ownerSVGElement!.getBoundingClientRect();
      const left = Math.max(0, Math.min(event.clientX - frame.left + 12, frame.width - 160));
      setTip({ text, left, top: event.clientY - frame.top + 16 });
    };
    return { onPointerEnter: show, onPointerMove: show, onPointerLeave: () => setTip(undefined) };
  };
  return (
    <figure className="chart" ref={ref}>
      {width > 0 && (
        <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
          {children(width, tipOf)}
        </svg>
      )}
      {tip && (
        <div className="chart-tip" aria-hidden="true" style={{ left: tip.left, top: tip.top }}>
          {tip.text}
        </div>
      )}
      {caption && <figcaption style={{ fontSize: "var(--mantine-font-size-sm)" }}>{caption}</figcaption>}
    </figure>
  );
}
