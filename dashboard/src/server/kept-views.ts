const KEY = "circadia-views";

/** A view that a person has named; this browser keeps it. */
export interface KeptView {
  name: string;
  /** Address below `/ui`. */
  address: string;
}

export function listViews(): KeptView[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter(isView) : [];
  } catch {
    return [];
  }
}

function isView(value: unknown): value is KeptView {
  const { name, address } = (value ?? {}) as Partial<KeptView>;
  return typeof name === "string" && typeof address === "string" && address.startsWith("/");
}

/** Keep a view under a name, in place of an earlier one of that name. */
export function keepView(view: KeptView): void {
  save([...listViews().filter(({ name }) => name !== view.name), view]);
}

export function forgetView(name: string): void {
  save(listViews().filter((view) => view.name !== name));
}

function save(views: KeptView[]): void {
  localStorage.setItem(KEY, JSON.stringify(views));
}
