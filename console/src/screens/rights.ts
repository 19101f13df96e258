// What a principal can do in a catalog, by the rules of docs/access-control.md: privileges are inherited, ownership is not, and
// nothing is reached without the use of every level above it.
import { type Schemas, answersOf, call, v1 } from "../api/client";
import { treeOf } from "./trees";

type Kind = Schemas["SecurableType"];
type Privilege = Schemas["Privilege"];
type Rights = Schemas["Rights"];

export interface Right {
  name: string;
  kind: Kind;
  can: string[];
  because: string[];
}

/** What holds for everything below a level: privileges from above with where they were granted, and whether the level is in use. */
interface Level {
  granted: Map<Privilege, string>;
  inUse: boolean;
  owns: boolean;
}

const MOST = 400;

const ALLOWS: Partial<Record<Kind, [Privilege, string][]>> = {
  metastore: [["CREATE CATALOG", "create catalogs"], ["CREATE EXTERNAL TABLE", "register tables by location"], ["CREATE REFERENCE", "create references"], ["READ FILES", "read files"], ["WRITE FILES", "write files"]],
  catalog: [["CREATE SCHEMA", "create namespaces"], ["PROMOTE", "promote"]],
  schema: [["CREATE TABLE", "create tables"], ["CREATE SCHEMA", "create namespaces"], ["PROMOTE", "promote"]],
  table: [["SELECT", "read"], ["MODIFY", "commit"], ["PROMOTE", "promote"]],
};

async function rightsOn(kind: Kind, name: string): Promise<Rights> {
  return call(v1.GET("/v1/permissions/{securable_type}/{full_name}", { params: { path: { securable_type: kind, full_name: name } } }));
}

interface Found {
  securables: [Kind, string][];
  rights: Rights[];
  /** False where the catalog has more than `MOST` securables. */
  complete: boolean;
}

/** The owner and the grants of the metastore, of the catalog, and of the first of its namespaces and tables. */
async function readRights(catalog: string): Promise<Found> {
  const tree = await treeOf(catalog, "");
  const securables: [Kind, string][] = [["metastore", "metastore"], ["catalog", catalog]];
  for (const { kind, name } of tree.entries) securables.push([kind === "namespace" ? "schema" : "table", name]);
  const asked = securables.slice(0, MOST);
  const rights = await answersOf(asked, ([kind, name]) => rightsOn(kind, name));
  return { securables: asked, rights, complete: tree.complete && asked.length === securables.length };
}

export interface Principal {
  name: string;
  owns: string[];
  /** Privileges with the securable on which they are granted. */
  grants: string[];
}

/** Every user, client and role that owns a securable of the catalog or has a privilege on one. */
export async function principalsOf(catalog: string): Promise<{ principals: Principal[]; complete: boolean }> {
  const { securables, rights, complete } = await readRights(catalog);
  const found = new Map<string, Principal>();
  const principalNamed = (name: string): Principal => {
    const known = found.get(name) ?? { name, owns: [], grants: [] };
    found.set(name, known);
    return known;
  };
  securables.forEach(([, name], place) => {
    const { owner, grants } = rights[place] as Rights;
    if (owner !== null) principalNamed(owner).owns.push(name);
    for (const { principal, privileges } of grants) principalNamed(principal).grants.push(`${privileges.join(", ")} on ${name}`);
  });
  return { principals: [...found.values()], complete };
}

/** What `names`, a principal and its roles, can do with each securable of the catalog; of the first `MOST` of them. */
export async function rightsOf(catalog: string, names: string[]): Promise<{ rights: Right[]; complete: boolean }> {
  const { securables, rights: found, complete } = await readRights(catalog);
  const levels = new Map<string, Level>();
  const rights: Right[] = [];
  securables.forEach(([kind, name], place) => {
    const above = kind === "metastore" || kind === "catalog" ? undefined : levels.get(name.slice(0, name.lastIndexOf(".")));
    const level = levelOf(kind, name, found[place] as Rights, names, above);
    levels.set(name, level);
    const right = describe(kind, name, level, above);
    if (right.can.length || right.because.length) rights.push(right);
  });
  return { rights, complete };
}

function levelOf(kind: Kind, name: string, { owner, grants }: Rights, names: string[], above?: Level): Level {
  const granted = new Map(above?.granted);
  for (const { principal, privileges } of grants) {
    if (!names.includes(principal)) continue;
    for (const privilege of privileges) if (!granted.has(privilege)) granted.set(privilege, `${privilege} to ${principal} on ${name}`);
  }
  const owns = owner !== null && names.includes(owner);
  const use = kind === "catalog" ? granted.has("USE CATALOG") : kind === "schema" ? granted.has("USE SCHEMA") : true;
  return { granted, owns, inUse: (above?.inUse ?? true) && (use || owns) };
}

function describe(kind: Kind, name: string, level: Level, above?: Level): Right {
  const reached = kind === "metastore" || kind === "table" ? (above?.inUse ?? true) : level.inUse;
  const can: string[] = [];
  const because: string[] = [];
  if (level.owns) {
    because.push("owner");
    if (reached) can.push(kind === "table" ? "read, commit" : "create, drop and grant in it");
    if (reached) can.push("drop, grant");
    if (reached && kind === "catalog") can.push("promote");
  }
  if (reached && kind !== "metastore" && kind !== "table") can.push("see");
  for (const [privilege, what] of ALLOWS[kind] ?? []) {
    const source = level.granted.get(privilege);
    if (!source) continue;
    because.push(source);
    if (reached && (privilege === "PROMOTE" || !(level.owns && kind === "table"))) can.push(what);
  }
  if (!reached && because.length) because.push("but a level above is not in use: USE CATALOG or USE SCHEMA is missing");
  if (reached && !because.length && can.length) because.push([...level.granted.values()].find((source) => source.startsWith("USE")) ?? "");
  return { name, kind, can: [...new Set(can)], because };
}
