// The HTTP API, typed by openapi/. Every refusal becomes an ApiError with what the service says of it.
import createClient, { type Middleware } from "openapi-fetch";
import type { paths as Iceberg } from "./generated/iceberg";
import type { paths as Tokens } from "./generated/tokens";
import type { components, paths as V1 } from "./generated/v1";
import { currentToken, logOut } from "./session";

export type Schemas = components["schemas"];

/** What a refusal says: `type` is one of docs/api.md, `remedy` what to do. */
export class ApiError extends Error {
  readonly status: number;
  readonly type: string;
  readonly remedy: string;
  readonly details: Record<string, unknown>;

  constructor(status: number, error: Record<string, unknown>) {
    super(typeof error.message === "string" && error.message ? error.message : `the answer was ${status}`);
    this.status = status;
    this.type = typeof error.type === "string" ? error.type : "Unreachable";
    this.remedy = typeof error.remedy === "string" ? error.remedy : "";
    this.details = error;
  }
}

const authorization: Middleware = {
  onRequest({ request }) {
    const token = currentToken();
    if (token) request.headers.set("Authorization", `Bearer ${token}`);
    return request;
  },
  onResponse({ response, request }) {
    const sent = request.headers.get("Authorization");
    if (response.status === 401 && sent === (currentToken() ? `Bearer ${currentToken()}` : null)) {
      logOut(sent ? "The token was not accepted, or has ended." : "");
    }
  },
};

export const v1 = createClient<V1>({ baseUrl: "/" });
export const tokens = createClient<Tokens>({ baseUrl: "/" });
export const iceberg = createClient<Iceberg>({ baseUrl: "/" });
for (const client of [v1, tokens, iceberg]) client.use(authorization);

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of an answer. Throws ApiError for a refusal, and for an answer that did not come. */
export async function call<T>(request: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await request;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, { message: "The service does not answer.", remedy: "See whether it runs: turnstile status" });
  }
  if (!answer.response.ok) {
    const body = answer.error as { error?: Record<string, unknown> } | undefined;
    throw new ApiError(answer.response.status, body?.error ?? {});
  }
  return answer.data as T;
}

/** What a listing gave: `complete` is false where there is more than was asked for. */
export interface Listing<T> {
  items: T[];
  complete: boolean;
}

/** All pages of a listing, up to `most` items. */
export async function pages<P extends { next_page_token?: string }, T>(
  page: (token: string | undefined) => Promise<P>,
  items: (page: P) => T[],
  most = 5000,
): Promise<Listing<T>> {
  const listed: T[] = [];
  let token: string | undefined;
  do {
    const next = await page(token);
    listed.push(...items(next));
    token = next.next_page_token;
  } while (token && listed.length < most);
  return { items: listed, complete: !token };
}

/** The answers for all items in their order, from a bounded number of requests at once. */
export async function answersOf<T, R>(items: T[], ask: (item: T) => Promise<R>, atOnce = 8): Promise<R[]> {
  const answers: R[] = [];
  for (let first = 0; first < items.length; first += atOnce) answers.push(...(await Promise.all(items.slice(first, first + atOnce).map(ask))));
  return answers;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
