// Moments of a catalog as people write them: snapshot:NAME, seq:NUMBER, time:2026-11-01T00:00:00Z or head:ID.
import type { Schemas } from "../api/client";

export const MOMENTS = "snapshot:NAME, seq:NUMBER, time:2026-11-01T00:00:00Z or head:ID";

export function whenOf(text: string): Schemas["When"] {
  const [kind, value] = [text.slice(0, text.indexOf(":")), text.slice(text.indexOf(":") + 1)];
  if (kind === "seq") return { seq: Number(value) };
  if (kind === "time") return { time: /^\d+$/.test(value) ? Number(value) : Date.parse(value) };
  return kind === "head" ? { head: value } : { snapshot: kind === "snapshot" ? value : text };
}
