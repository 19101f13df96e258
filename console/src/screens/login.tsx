// Login: by the issuer where the server names one, and by a token.
import { Alert, Button, Center, Divider, Paper, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useLocation, useNavigate, useSearchParams } from "react-router";
import { ApiError } from "../api/client";
import { type Settings, beginOidc, endOidc, logIn } from "../api/session";
import { Refusal } from "../parts/notices";

/** Asks the API with the token before it is kept. */
async function check(token: string): Promise<string> {
  const response = await fetch("/v1", { headers: { Authorization: `Bearer ${token}` } });
  if (response.status === 401) {
    throw new ApiError(401, { type: "Not accepted", message: "The service does not accept this token.", remedy: "See that it is whole, and has not ended." });
  }
  if (!response.ok) throw new ApiError(response.status, ((await response.json().catch(() => ({}))) as { error?: Record<string, unknown> }).error ?? {});
  return token;
}

export function Login({ settings, refused }: { settings: Settings; refused: string }) {
  const [token, setToken] = useState("");
  const navigate = useNavigate();
  const here = useLocation();
  const byToken = useMutation({
    mutationFn: check,
    onSuccess: (good) => {
      logIn(good);
      if (here.pathname === "/login") navigate("/", { replace: true });
    },
  });
  const byIssuer = useMutation({ mutationFn: () => beginOidc(settings, here.pathname === "/login" ? "/" : here.pathname + here.search) });
  const returning = useReturn(settings);
  return (
    <Center mih="100vh" p="md" component="main">
      <Paper withBorder p="xl" radius="md" w="100%" maw={420}>
        <Stack>
          <Title order={1} size="h2">
            Turnstile
          </Title>
          {refused && <Alert color="orange" role="status">{refused}</Alert>}
          {returning.error && <Refusal error={returning.error} />}
          {settings.issuer && (
            <>
              <Button onClick={() => byIssuer.mutate()} loading={byIssuer.isPending || returning.isPending}>
                Log in with {new URL(settings.issuer).host}
              </Button>
              {byIssuer.error && <Refusal error={byIssuer.error} />}
              <Divider label="or by a token" />
            </>
          )}
          <form
            onSubmit={(event) => {
              event.preventDefault();
              byToken.mutate(token.trim());
            }}
          >
            <Stack>
              <PasswordInput
                label="Token"
                description="Kept in this tab only, and sent to this service only"
                value={token}
                onChange={(event) => setToken(event.currentTarget.value)}
                autoComplete="off"
                required
                visibilityToggleButtonProps={{ "aria-label": "Show the token" }}
              />
              {byToken.error && <Refusal error={byToken.error} />}
              <Button type="submit" variant={settings.issuer ? "default" : "filled"} loading={byToken.isPending}>
                Log in
              </Button>
            </Stack>
          </form>
          <Text size="sm" c="dimmed">
            Who may do what is decided by the service for each request.
          </Text>
        </Stack>
      </Paper>
    </Center>
  );
}

/** Ends a login that the issuer sent back to /login. */
function useReturn(settings: Settings) {
  const [query] = useSearchParams();
  const navigate = useNavigate();
  const begun = useRef(false);
  const returning = useMutation({ mutationFn: () => endOidc(settings), onSuccess: (place) => navigate(place, { replace: true }) });
  const isReturn = settings.issuer !== "" && query.has("state") && (query.has("code") || query.has("error"));
  const { mutate } = returning;
  useEffect(() => {
    if (!isReturn || begun.current) return;
    begun.current = true;
    mutate();
  }, [isReturn, mutate]);
  return returning;
}
