// The frame of every screen: where one is, which catalog, who, light or dark.
import { AppShell, Burger, Button, Group, Loader, NavLink as Entry, NativeSelect, ScrollArea, Text, TextInput, Title, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Suspense, lazy, useEffect, useState } from "react";
import { NavLink, Route, Routes, useLocation, useNavigate, useSearchParams } from "react-router";
import { baseOf, screenOf, useBranches, useCatalog, useCatalogs } from "./api/places";
import { type Settings, logOut, readSettings, useSession } from "./api/session";
import { Loaded } from "./parts/notices";
import { Login } from "./screens/login";

const SCREENS = [
  ["/", "Health", lazy(() => import("./screens/health"))],
  ["/browse", "Browse", lazy(() => import("./screens/browse"))],
  ["/history", "History", lazy(() => import("./screens/history"))],
  ["/branches", "Branches", lazy(() => import("./screens/branches"))],
  ["/transactions", "Transactions", lazy(() => import("./screens/transactions"))],
  ["/events", "Events", lazy(() => import("./screens/events"))],
  ["/access", "Access", lazy(() => import("./screens/access"))],
  ["/connect", "Connect", lazy(() => import("./screens/connect"))],
  ["/operations", "Operations", lazy(() => import("./screens/operations"))],
  ["/import", "Import", lazy(() => import("./screens/import"))],
] as const;
const Table = lazy(() => import("./screens/table"));
const Branch = lazy(() => import("./screens/branch"));
const IcebergTable = lazy(() => import("./screens/iceberg-table"));

export function App() {
  const settings = useQuery({ queryKey: ["settings"], queryFn: readSettings, staleTime: Number.POSITIVE_INFINITY });
  return <Loaded query={settings}>{(read) => <Gate settings={read} />}</Loaded>;
}

function Gate({ settings }: { settings: Settings }) {
  const { token, refused } = useSession();
  const { pathname } = useLocation();
  const needsLogin = settings.authentication === "required" && !token;
  if (needsLogin || pathname === "/login") return <Login settings={settings} refused={refused} />;
  return <Frame settings={settings} />;
}

function Frame({ settings }: { settings: Settings }) {
  const [open, { toggle, close }] = useDisclosure(false);
  const { pathname, search } = useLocation();
  useEffect(close, [pathname, search, close]);
  useEffect(() => {
    const screen = SCREENS.find(([path]) => path !== "/" && pathname.startsWith(path))?.[1];
    const name = decodeURIComponent(pathname.split("/")[2] ?? "");
    document.title = `${screen ?? (name || "Health")} · Turnstile`;
  }, [pathname]);
  return (
    <AppShell header={{ height: 56 }} navbar={{ width: 200, breakpoint: "sm", collapsed: { mobile: !open } }} padding="md">
      <a className="skip" href="#main">
        To the content
      </a>
      <AppShell.Header px="md">
        <Group h="100%" justify="space-between" wrap="nowrap" gap="xs">
          <Group gap="xs" wrap="nowrap">
            <Burger opened={open} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={open ? "Close the menu" : "Open the menu"} />
            <Text fw={700} fz="lg">
              Turnstile
            </Text>
          </Group>
          <Group gap="xs" wrap="nowrap">
            <CatalogChoice />
            <SchemeChoice />
            {settings.authentication === "required" && (
              <Button size="xs" variant="default" onClick={() => logOut()} visibleFrom="sm">
                Log out
              </Button>
            )}
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label="Screens">
        <ScrollArea>
          <NameSearch />
          {SCREENS.map(([path, name]) => (
            <ScreenLink key={path} path={path} name={name} />
          ))}
          {settings.authentication === "required" && (
            <Button size="xs" variant="default" onClick={() => logOut()} hiddenFrom="sm" m="xs">
              Log out
            </Button>
          )}
        </ScrollArea>
      </AppShell.Navbar>
      <AppShell.Main id="main" tabIndex={-1}>
        <Suspense fallback={<Loader aria-label="Loading" />}>
          <Routes>
            {SCREENS.map(([path, , Screen]) => (
              <Route key={path} path={path} element={<Screen />} />
            ))}
            <Route path="/table/:name" element={<Table />} />
            <Route path="/branch/:name" element={<Branch />} />
            <Route path="/iceberg/:name" element={<IcebergTable />} />
            <Route path="*" element={<Title order={1}>There is no such screen</Title>} />
          </Routes>
        </Suspense>
      </AppShell.Main>
    </AppShell>
  );
}

/** Finds names of the chosen catalog, from every screen. */
function NameSearch() {
  const [text, setText] = useState("");
  const catalog = useCatalog();
  const navigate = useNavigate();
  return (
    <form
      role="search"
      aria-label="Names"
      onSubmit={(event) => {
        event.preventDefault();
        const part = text.trim();
        if (part && catalog) navigate(`/browse?${new URLSearchParams({ catalog, name: part })}`);
      }}
    >
      <TextInput
        size="xs"
        mb="xs"
        aria-label="Find a name"
        placeholder="Find a name"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        spellCheck={false}
      />
    </form>
  );
}

function ScreenLink({ path, name }: { path: string; name: string }) {
  const { pathname } = useLocation();
  const [query] = useSearchParams();
  const catalog = query.get("catalog");
  const active = path === "/" ? pathname === "/" : pathname.startsWith(path);
  return (
    <Entry
      component={NavLink}
      to={catalog ? screenOf(path, catalog) : path}
      label={name}
      active={active}
      variant="light"
    />
  );
}

/** The catalogs, and the branches of the one that is looked at. */
function CatalogChoice() {
  const catalogs = useCatalogs();
  const catalog = useCatalog();
  const base = baseOf(catalog);
  const branches = useBranches(base);
  const [, setQuery] = useSearchParams();
  if (!catalogs.data?.length) return null;
  const names = catalogs.data.flatMap(({ name }) => (name === base ? [name, ...(branches.data ?? []).map((branch) => branch.full_name)] : [name]));
  if (!names.includes(catalog)) names.push(catalog);
  return (
    <NativeSelect
      aria-label="Catalog"
      size="xs"
      data={names}
      value={catalog}
      onChange={(event) => setQuery({ catalog: event.currentTarget.value })}
      maw={160}
    />
  );
}

function SchemeChoice() {
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  const other = scheme === "dark" ? "light" : "dark";
  return (
    <Button size="xs" variant="default" onClick={() => setColorScheme(other)} style={{ flexShrink: 0 }} aria-label={`Change to ${other} colours`}>
      {other === "dark" ? "Dark" : "Light"}
    </Button>
  );
}
