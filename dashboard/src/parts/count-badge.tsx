/** A number of what waits; nothing for none. */
export function CountBadge({ count }: { count: number }) {
  if (count === 0) return null;
  return <span className="count-badge">{count >= 1000 ? "999+" : count}</span>;
}
