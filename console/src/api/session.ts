// Who is logged in: a token in the session's storage, which ends with the browser's tab.
import { useSyncExternalStore } from "react";
import type { User, UserManager } from "oidc-client-ts";

/** What the server says of itself before anybody has logged in (/ui/settings.json). */
export interface Settings {
  authentication: "none" | "required";
  issuer: string;
  client_id: string;
  scope: string;
  audience: string;
}

const KEY = "turnstile.token";
const listeners = new Set<() => void>();
let token = sessionStorage.getItem(KEY) ?? "";
let refused = "";

function tell(): void {
  for (const listener of listeners) listener();
}

export function currentToken(): string {
  return token;
}

export function logIn(given: string): void {
  token = given;
  refused = "";
  sessionStorage.setItem(KEY, given);
  tell();
}

/** Forgets the token; `because` is shown where one logs in. */
export function logOut(because = ""): void {
  token = "";
  refused = because;
  sessionStorage.removeItem(KEY);
  tell();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The token, and why the last one was given up; both empty where there is nothing to say. */
export function useSession(): { token: string; refused: string } {
  const held = useSyncExternalStore(subscribe, () => token);
  const because = useSyncExternalStore(subscribe, () => refused);
  return { token: held, refused: because };
}

export async function readSettings(): Promise<Settings> {
  const response = await fetch("/ui/settings.json", { cache: "no-store" });
  if (!response.ok) throw new Error(`the server does not answer: ${response.status}`);
  return (await response.json()) as Settings;
}

// -- OpenID Connect: authorization code with PKCE, by oidc-client-ts ---------------------------------------------------------

let manager: Promise<UserManager> | undefined;

function managerOf(settings: Settings): Promise<UserManager> {
  manager ??= import("oidc-client-ts").then(({ UserManager, WebStorageStateStore }) => {
    const made = new UserManager({
      authority: settings.issuer,
      client_id: settings.client_id,
      redirect_uri: `${location.origin}/ui/login`,
      scope: settings.scope,
      response_type: "code",
      extraQueryParams: settings.audience ? { audience: settings.audience } : {},
      userStore: new WebStorageStateStore({ store: sessionStorage }),
      stateStore: new WebStorageStateStore({ store: sessionStorage }),
      automaticSilentRenew: false,
    });
    made.events.addAccessTokenExpiring(() => void renew(made));
    return made;
  });
  return manager;
}

/** A new token by the refresh token, where the issuer gave one; else the next answer 401 asks people to log in again. */
async function renew(made: UserManager): Promise<void> {
  const user = await made.getUser();
  if (user?.refresh_token) accept(await made.signinSilent());
}

function accept(user: User | null): void {
  if (user?.access_token) logIn(user.access_token);
}

/** Goes to the issuer's page, and comes back to /ui/login; `here` is where to go on afterwards. */
export async function beginOidc(settings: Settings, here: string): Promise<void> {
  await (await managerOf(settings)).signinRedirect({ state: here });
}

/** Ends what `beginOidc` began; returns where to go on. */
export async function endOidc(settings: Settings): Promise<string> {
  const user = await (await managerOf(settings)).signinRedirectCallback();
  accept(user);
  return typeof user.state === "string" ? user.state : "/";
}
