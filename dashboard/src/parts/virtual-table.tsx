import { Button, Checkbox, Group } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useMemo, useRef } from "react";

import { saveCsv } from "../server/csv";
import { useViewPart } from "../server/view";

import { useRowHeight } from "../server/preferences";

export interface Column<Row> {
  id: string;
  header: string;
  /** Drawn in place of the header's text. */
  headerCell?: ReactNode;
  /** Track of the grid, such as `2fr` or `6rem`. */
  width: string;
  /** The track on a narrow screen, if it is another. */
  narrowWidth?: string;
  cell: (row: Row) => ReactNode;
  /** Makes the column sortable. */
  sortValue?: (row: Row) => string | number;
  /** What a CSV file has of the row, if it is not the value to sort by; a column with neither is not in it. */
  csvValue?: (row: Row) => string | number;
  isNumber?: boolean;
  /** Whether a narrow screen leaves it out. */
  isWideOnly?: boolean;
}

interface Selection<Row> {
  chosen: ReadonlySet<string>;
  onChange: (chosen: ReadonlySet<string>) => void;
  /** Of which rows it is; by default of all. */
  isSelectable?: (row: Row) => boolean;
  /** What a screen reader calls a row; by default its key. */
  rowName?: (row: Row) => string;
}

interface VirtualTableProps<Row> {
  label: string;
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  columns: readonly Column<Row>[];
  /** Shown in place of no rows. */
  empty: ReactNode;
  initialSort?: Sort;
  /** Whether the server has further rows: then the rows stay in its order, since another one would be of these alone. */
  isPart?: boolean;
  selection?: Selection<Row>;
  rowHeight?: number;
  /** Height on a narrow screen, where the acts of a row are below each other. */
  narrowRowHeight?: number;
}

interface Sort {
  column: string;
  isDescending: boolean;
}

/** A table that draws the visible rows only, of any number. */
export function VirtualTable<Row>(props: VirtualTableProps<Row>) {
  const ownHeight = useRowHeight();
  const { label, rows, rowKey, empty, initialSort, isPart = false, selection, rowHeight = ownHeight, narrowRowHeight = rowHeight } = props;
  const [order, setSort] = useSort(props.columns, initialSort);
  const sort = isPart ? undefined : order;
  const sorted = useMemo(() => sortRows(rows, props.columns, sort), [rows, props.columns, sort]);
  const columns = selection ? [selectionColumn(selection, sorted, rowKey), ...props.columns] : props.columns;
  const isNarrow = useMediaQuery("(max-width: 48em)", false, { getInitialValueInEffect: false });
  const height = isNarrow ? narrowRowHeight : rowHeight;
  const body = useRef<HTMLDivElement>(null);
  const virtualizer = useVirtualizer({
    count: sorted.length,
    getScrollElement: () => body.current,
    estimateSize: () => height,
    overscan: 12,
    getItemKey: (index) => rowKey(sorted[index]!),
  });
  useEffect(() => virtualizer.measure(), [virtualizer, height]);
  if (rows.length === 0) return <div className="table">{empty}</div>;
  const filed = props.columns.filter((column) => column.csvValue ?? column.sortValue);
  const shown = isNarrow ? columns.filter((column) => !column.isWideOnly) : columns;
  const style = { gridTemplateColumns: shown.map(({ width, narrowWidth = width }) => `minmax(0, ${isNarrow ? narrowWidth : width})`).join(" ") };
  return (
    <>
    <div className="table" role="table" aria-label={label} aria-rowcount={sorted.length + 1}>
      <div role="rowgroup" className="table-head-frame">
        <div className="table-row table-head" role="row" aria-rowindex={1} style={style}>
          {shown.map((column) => (
            <HeaderCell key={column.id} column={column} sort={sort} onSort={isPart ? undefined : setSort} />
          ))}
        </div>
      </div>
      <div className="table-body" role="rowgroup" ref={body} tabIndex={0} aria-label={`Rows of ${label}`}>
        <div role="presentation" style={{ height: virtualizer.getTotalSize(), position: "relative" }}>
          {virtualizer.getVirtualItems().map((item) => {
            const row = sorted[item.index]!;
            return (
              <div
                key={item.key}
                className="table-row"
                role="row"
                aria-rowindex={item.index + 2}
                style={{ ...style, height: item.size, transform: `translateY(${item.start}px)` }}
              >
                {shown.map((column) => (
                  <div key={column.id} role="cell" className={column.isNumber ? "number" : undefined}>
                    {column.cell(row)}
                  </div>
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </div>
    {filed.length > 0 && (
      <Group justify="flex-end">
        <Button size="compact-xs" variant="subtle" color="gray" onClick={() => saveRows(label, filed, sorted)} aria-label={`CSV of ${label}`}>
          CSV
        </Button>
      </Group>
    )}
    </>
  );
}

function saveRows<Row>(label: string, columns: readonly Column<Row>[], rows: readonly Row[]): void {
  const cells = rows.map((row) => columns.map(({ csvValue, sortValue }) => (csvValue ?? sortValue)!(row)));
  saveCsv(label, [columns.map(({ header }) => header), ...cells]);
}

/** The order of the rows, which the address keeps as `order=column` or `order=-column`. */
function useSort<Row>(columns: readonly Column<Row>[], initial: Sort | undefined): [Sort | undefined, (sort: Sort) => void] {
  const [order, setOrder] = useViewPart("order");
  const column = order.replace(/^-/, "");
  const isHere = columns.some(({ id, sortValue }) => id === column && sortValue);
  const sort = isHere ? { column, isDescending: order.startsWith("-") } : initial;
  return [sort, ({ column, isDescending }) => setOrder(`${isDescending ? "-" : ""}${column}`)];
}

interface HeaderCellProps<Row> {
  column: Column<Row>;
  sort: Sort | undefined;
  onSort: ((sort: Sort) => void) | undefined;
}

function HeaderCell<Row>({ column, sort, onSort }: HeaderCellProps<Row>) {
  const isSorted = sort?.column === column.id;
  const isSortable = column.sortValue !== undefined && onSort !== undefined;
  const direction = sort?.isDescending ? "descending" : "ascending";
  return (
    <div
      role="columnheader"
      className={column.isNumber ? "number" : undefined}
      aria-sort={isSortable ? (isSorted ? direction : "none") : undefined}
    >
      {isSortable ? (
        <button
          type="button"
          className="sort-button"
          onClick={() => onSort({ column: column.id, isDescending: isSorted ? !sort.isDescending : false })}
        >
          {column.header}
          <span aria-hidden="true">{isSorted ? (sort.isDescending ? " ↓" : " ↑") : ""}</span>
        </button>
      ) : (
        (column.headerCell ?? column.header)
      )}
    </div>
  );
}

function sortRows<Row>(rows: readonly Row[], columns: readonly Column<Row>[], sort: Sort | undefined): readonly Row[] {
  const value = columns.find((column) => column.id === sort?.column)?.sortValue;
  if (sort === undefined || value === undefined) return rows;
  const sign = sort.isDescending ? -1 : 1;
  const keyed = rows.map((row) => [value(row), row] as const);
  keyed.sort(([one], [other]) => (one < other ? -sign : one > other ? sign : 0));
  return keyed.map(([, row]) => row);
}

function selectionColumn<Row>(
  { chosen, onChange, isSelectable = () => true, rowName }: Selection<Row>,
  shown: readonly Row[],
  rowKey: (row: Row) => string,
): Column<Row> {
  const rows = shown.filter(isSelectable);
  const isAll = rows.length > 0 && rows.every((row) => chosen.has(rowKey(row)));
  const toggle = (key: string) => {
    const next = new Set(chosen);
    if (!next.delete(key)) next.add(key);
    onChange(next);
  };
  return {
    id: "selection",
    header: "Selection",
    headerCell: (
      <Checkbox
        size="xs"
        aria-label="Select all"
        checked={isAll}
        disabled={rows.length === 0}
        indeterminate={!isAll && rows.some((row) => chosen.has(rowKey(row)))}
        onChange={() => onChange(new Set(isAll ? [] : rows.map(rowKey)))}
      />
    ),
    width: "1.5rem",
    cell: (row) => {
      const key = rowKey(row);
      if (!isSelectable(row)) return null;
      return <Checkbox size="xs" aria-label={`Select ${rowName?.(row) ?? key}`} checked={chosen.has(key)} onChange={() => toggle(key)} />;
    },
  };
}
