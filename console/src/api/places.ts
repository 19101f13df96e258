// The catalog that is looked at: the member `catalog` of the address, so that an address can be sent to a colleague.
import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { call, v1 } from "./client";

/** Between a catalog and its branch. New catalogs have none in their names. */
const BRANCH_SIGN = "@";

export function useCatalogs() {
  return useQuery({ queryKey: ["catalogs"], queryFn: async () => (await call(v1.GET("/v1/catalogs"))).catalogs, staleTime: 30_000 });
}

export function useCatalog(): string {
  const [query] = useSearchParams();
  const catalogs = useCatalogs();
  return query.get("catalog") ?? catalogs.data?.[0]?.name ?? "";
}

/** The catalog that `main@dev` is a branch of; of a catalog that is no branch, itself. */
export function baseOf(catalog: string): string {
  return catalog.split(BRANCH_SIGN)[0] ?? "";
}

export function isBranch(catalog: string): boolean {
  return catalog.includes(BRANCH_SIGN);
}

/** The branches of a catalog that is no branch itself. */
export function useBranches(catalog: string) {
  return useQuery({
    queryKey: ["branches", catalog],
    queryFn: async () => (await call(v1.GET("/v1/catalogs/{catalog}/branches", { params: { path: { catalog } } }))).branches,
    enabled: catalog !== "",
  });
}

/** A full name `catalog.namespace....table` in its three parts. */
export function partsOf(name: string): { catalog: string; namespace: string; table: string } {
  const levels = name.split(".");
  return { catalog: levels[0] ?? "", namespace: levels.slice(1, -1).join("."), table: levels[levels.length - 1] ?? "" };
}

/** The address of a screen, for a catalog. */
export function screenOf(path: string, catalog: string): string {
  return `${path}?catalog=${encodeURIComponent(catalog)}`;
}

export function branchPlaceOf(branch: { full_name: string }): string {
  return screenOf(`/branch/${encodeURIComponent(branch.full_name)}`, baseOf(branch.full_name));
}

export function placeOf(entry: { name: string; kind: string }): string {
  const { catalog } = partsOf(entry.name);
  const name = encodeURIComponent(entry.name);
  if (entry.kind === "namespace") return `${screenOf("/browse", catalog)}&at=${name}`;
  return screenOf(entry.kind === "table" ? `/table/${name}` : `/iceberg/${name}`, catalog);
}
