// The whole tree of a catalog at a moment, and what differs between two: by path queries, level by level.
import type { Schemas } from "../api/client";
import { isBranch } from "../api/places";
import { findAll } from "./browse";

type Entry = Schemas["Entry"];

const MOST_LEVELS = 32;

export interface Tree {
  entries: Entry[];
  complete: boolean;
}

/** Every namespace, table and view that one may see; `asOf` empty means now. */
export async function treeOf(catalog: string, asOf: string): Promise<Tree> {
  const entries: Entry[] = [];
  let complete = true;
  for (let level = 1; level <= MOST_LEVELS; level += 1) {
    const found = await findAll(`/${catalog}${"/*".repeat(level)}`, asOf || undefined);
    entries.push(...found.items);
    complete = complete && found.complete;
    if (!found.items.some((entry) => entry.kind === "namespace")) break;
  }
  return { entries, complete };
}

export interface Difference {
  appeared: string[];
  gone: string[];
  renamed: [string, string][];
  changed: string[];
  complete: boolean;
}

/** The location of a Delta table without the folder of the log that it has of its own on a branch. */
function sharedLocationOf({ location }: Entry): string {
  return (location ?? "").replace(/\/_branches\/[^/]+$/, "");
}

/** What stays the same while an entry changes: its id; of a Delta table on a branch, which gets another id with its own log, its location. */
function identityOf(entry: Entry): string {
  return entry.kind === "table" && isBranch(entry.name) ? sharedLocationOf(entry) : entry.id;
}

/** What is told of an entry apart from its name; versions of Delta tables are not the catalog's. */
function contentOf(entry: Entry): string {
  const { kind, comment, properties, metadata_location } = entry;
  const pairs = kind === "table" ? [] : Object.entries(properties ?? {}).sort(([one], [other]) => one.localeCompare(other));
  return JSON.stringify([comment ?? "", pairs, sharedLocationOf(entry), metadata_location ?? ""]);
}

/** What changes from the moment `from` to the moment `to`; entries are the same by their identity. */
export async function differenceOf(catalog: string, from: string, to: string): Promise<Difference> {
  const [before, after] = await Promise.all([treeOf(catalog, from), treeOf(catalog, to)]);
  const known = new Map(before.entries.map((entry) => [identityOf(entry), entry]));
  const difference: Difference = { appeared: [], gone: [], renamed: [], changed: [], complete: before.complete && after.complete };
  for (const entry of after.entries) {
    const earlier = known.get(identityOf(entry));
    known.delete(identityOf(entry));
    if (!earlier) difference.appeared.push(entry.name);
    else {
      if (earlier.name !== entry.name) difference.renamed.push([earlier.name, entry.name]);
      if (contentOf(earlier) !== contentOf(entry)) difference.changed.push(entry.name);
    }
  }
  difference.gone.push(...[...known.values()].map((entry) => entry.name));
  return difference;
}
