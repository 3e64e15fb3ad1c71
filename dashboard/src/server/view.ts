import { useEffect, useRef, useState } from "react";
import { useSearchParams } from "wouter";

const TYPING_MILLISECONDS = 300;

/** How the address takes a change: as a new entry, to which Back returns, or in place of the present one. */
interface Change {
  replace?: boolean;
}

/** Changes parts of the view; an empty text takes one out of the address. */
export type SetParts = (parts: Record<string, string>, change?: Change) => void;

/** The parts of the view that the address keeps: tab, filter, order, drawer. */
export function useView(): [URLSearchParams, SetParts] {
  const [params, setParams] = useSearchParams();
  const setParts: SetParts = (parts, change) =>
    setParams((shown) => {
      const next = new URLSearchParams(shown);
      for (const [name, value] of Object.entries(parts)) {
        if (value === "") next.delete(name);
        else next.set(name, value);
      }
      return next;
    }, change);
  return [params, setParts];
}

/** One part of the view; the address leaves out the fallback. */
export function useViewPart(name: string, fallback = ""): [string, (value: string | null) => void] {
  const [params, setParts] = useView();
  const set = (value: string | null) => setParts({ [name]: value === null || value === fallback ? "" : value });
  return [params.get(name) ?? fallback, set];
}

/** A part of the view that a person types: the text so far, its setter, and what the address keeps shortly after. */
export function useTypedPart(name: string): [string, (text: string) => void, string] {
  const [params, setParts] = useView();
  const kept = params.get(name) ?? "";
  const [typed, setTyped] = useState(kept);
  const own = useRef(kept);
  useEffect(() => {
    if (kept === own.current) return; // else Back or a link has changed it
    own.current = kept;
    setTyped(kept);
  }, [kept]);
  const latest = useRef(setParts);
  latest.current = setParts;
  useEffect(() => {
    if (typed === kept) return undefined;
    const timer = setTimeout(() => {
      own.current = typed;
      latest.current({ [name]: typed }, { replace: true });
    }, TYPING_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [typed, kept, name]);
  return [typed, setTyped, kept];
}
