/** Return the pages of a list, up to `most`: `next` of each is the cursor of the one after it. */
export async function fetchPages<Cursor, Page extends { next?: Cursor | null }>(
  fetch: (after: Cursor | undefined) => Promise<Page>,
  most = Infinity,
): Promise<Page[]> {
  const pages: Page[] = [];
  let after: Cursor | undefined;
  do {
    const page = await fetch(after);
    pages.push(page);
    after = page.next ?? undefined;
  } while (after !== undefined && pages.length < most);
  return pages;
}
