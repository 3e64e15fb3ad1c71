import { formatCsv } from "./format";

/** Save rows, the first of which is the header, as a file. */
export function saveCsv(name: string, rows: readonly (readonly (string | number)[])[]): void {
  const address = URL.createObjectURL(new Blob([formatCsv(rows)], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = `circadia-${name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}.csv`;
  link.click();
  URL.revokeObjectURL(address);
}
