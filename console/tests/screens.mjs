// The screens, when each is there, and what can be done on them.
import assert from "node:assert/strict";

const heading = (page, name) => page.getByRole("heading", { level: 1, name }).waitFor();
/** A change by another client while the page is open. */
async function send(page, world, method, path, data) {
  const answer = await page.request[method](`${world.url}${path}`, { data, headers: { Authorization: `Bearer ${world.token}` } });
  assert.ok(answer.ok(), await answer.text());
}
const section = (page, name) => page.locator("section", { has: page.getByRole("heading", { name, exact: true }) });
const region = (page, name) => page.getByRole("region", { name, exact: true });
const tab = (page, name) => page.getByRole("tab", { name }).click();
const orders = () => "/table/main.sales.orders?catalog=main";

export const SCREENS = [
  { name: "login", anonymous: true, path: () => "/", ready: (page) => page.getByLabel(/^Token/).waitFor() },
  {
    name: "health",
    path: () => "/",
    ready: async (page, world) => {
      await heading(page, "Health");
      await region(page, "tables that need attention").getByText(world.stuck).waitFor();
      await region(page, "all tables").getByText("main.sales.orders").waitFor();
      await region(page, "conflicts").getByText("main.sales.orders").first().waitFor();
    },
  },
  {
    name: "browse",
    path: () => "/browse?catalog=main&at=main.sales",
    ready: (page) => page.getByRole("link", { name: "main.sales.orders" }).waitFor(),
  },
  {
    name: "search",
    path: () => `/browse?catalog=main&q=${encodeURIComponent("/main/*/*")}`,
    ready: async (page) => {
      await page.getByRole("link", { name: "main.web.clicks" }).waitFor();
      await page.getByRole("link", { name: "main.sales.orders" }).waitFor();
    },
  },
  {
    name: "table",
    path: orders,
    ready: async (page) => {
      await heading(page, "main.sales.orders");
      await region(page, "columns").getByText("Number of the order").waitFor();
    },
  },
  {
    name: "table-commits",
    path: orders,
    ready: async (page) => {
      await tab(page, "Commits");
      await region(page, "commits").getByText("MERGE").first().waitFor();
      await region(page, "conflicts").getByText("operator").first().waitFor();
    },
  },
  {
    name: "table-rows",
    path: orders,
    ready: async (page) => {
      await tab(page, "Rows");
      await page.getByText(/^50 rows of the first files at version/).waitFor();
      await region(page, "rows").getByRole("cell").first().waitFor();
      await page.getByLabel("Version").fill("1");
      await page.getByRole("button", { name: "Show rows" }).click();
      await page.getByText(/at version 1$/).waitFor();
    },
  },
  {
    name: "table-files",
    path: orders,
    ready: async (page) => {
      await tab(page, "Files");
      await page.getByText("deletion vectors").waitFor();
      await page.getByRole("button", { name: "List files" }).click();
      await region(page, "data files").getByText(/\.parquet$/).first().waitFor();
      await page.getByRole("button", { name: "Show", exact: true }).click();
      await page.getByRole("img", { name: /Files by version/ }).waitFor();
    },
  },
  {
    name: "table-maintenance",
    path: orders,
    ready: async (page) => {
      await tab(page, "Maintenance");
      await region(page, "policy").waitFor();
      await region(page, "pins").waitFor();
    },
  },
  {
    name: "table-outcome",
    path: orders,
    ready: async (page, world) => {
      await tab(page, "Outcome");
      await page.getByRole("textbox", { name: "Transaction id" }).fill(world.txn);
      await page.getByRole("button", { name: "Look up" }).click();
      await page.getByText("It is in the table.").waitFor();
    },
  },
  {
    name: "iceberg-table",
    path: () => "/iceberg/main.web.clicks?catalog=main",
    ready: async (page) => {
      await region(page, "columns").getByText("page", { exact: true }).waitFor();
      await region(page, "snapshots").getByText("append").first().waitFor();
    },
  },
  {
    name: "history",
    path: () => "/history?catalog=main",
    ready: async (page) => {
      await region(page, "log of the catalog").getByText("grants on main.sales.orders").waitFor();
      await region(page, "snapshots").getByText("Figures of the month").waitFor();
      await page.getByLabel("From", { exact: false }).fill("snapshot:month_end");
      await page.getByRole("button", { name: "Compare" }).click();
      await page.getByText("main.ops.jobs → main.ops.runs").waitFor();
    },
  },
  {
    name: "branches",
    path: () => "/branches?catalog=main",
    ready: async (page) => {
      await region(page, "branches").getByRole("link", { name: "main@november", exact: true }).waitFor();
      await region(page, "branches").getByText("A column that was missing").waitFor();
    },
  },
  {
    name: "branch",
    path: () => `/branch/${encodeURIComponent("main@november")}?catalog=main`,
    ready: async (page) => {
      await heading(page, "main@november");
      await region(page, "changed tables").getByText("sales.returns", { exact: true }).waitFor();
      await region(page, "changed names").getByText("sales.returns_2025", { exact: true }).waitFor();
      await region(page, "outcomes of expectations").getByText("broken", { exact: true }).waitFor();
      await page.getByRole("button", { name: "Compare the definitions of sales.refunds" }).click();
      await region(page, "columns of both sides").getByText("carrier").waitFor();
      await page.evaluate(() => scrollTo(0, 390));
    },
  },
  {
    name: "history-of-branch",
    path: () => `/history?catalog=${encodeURIComponent("main@november")}`,
    ready: async (page) => {
      await page.getByRole("note").getByText("branches have no snapshots, resets and clones").waitFor();
      await region(page, "log of the catalog").getByText(/^create branch main@november/).waitFor();
    },
  },
  {
    name: "transactions",
    path: () => "/transactions?catalog=main",
    ready: async (page, world) => {
      const lease = { tables: [world.customers], lease_ms: 120_000 };
      await send(page, world, "put", "/v1/reservations/0a1b2c3d-0000-4000-8000-000000000001", lease);
      await region(page, "announced transactions").getByText("committed").waitFor();
      await region(page, "reservations").getByText("held").waitFor();
    },
  },
  { name: "events", path: () => "/events?catalog=main", idle: false, ready: (page) => region(page, "events").getByText("table.stuck").first().waitFor() },
  {
    name: "access",
    path: () => "/access?catalog=main",
    ready: async (page) => {
      await page.getByRole("button", { name: "Show", exact: true }).click();
      await region(page, "grants on main").getByText("analysts").waitFor();
      await page.getByRole("button", { name: "List principals" }).click();
      await region(page, "principals").getByText("MODIFY, SELECT on main.sales.orders").waitFor();
      await page.getByLabel("User, client or role").fill("bob");
      await page.getByLabel("With the roles").fill("analysts, writers");
      await page.getByRole("button", { name: "Look", exact: true }).click();
      await region(page, "what can be done").getByText("MODIFY to writers on main.sales.orders").waitFor();
      await region(page, "clients").getByText("nightly loads").waitFor();
    },
  },
  {
    name: "connect",
    path: () => "/connect?catalog=main",
    ready: async (page, world) => {
      await page.getByText(`uri="${world.url}", catalog="main"`).waitFor();
    },
  },
  {
    name: "operations",
    path: () => "/operations?catalog=main",
    ready: async (page) => {
      await page.getByText("No server shares its work").waitFor();
      await page.getByRole("button", { name: "Look for garbage" }).click();
      await page.getByText("Found", { exact: true }).waitFor();
      await page.getByRole("combobox", { name: "Delta table" }).or(page.getByLabel("Delta table")).first().fill("main.sales.orders");
      await page.keyboard.press("Escape"); // the list of suggestions lies over the button where the window is narrow
      await page.getByRole("button", { name: "What is due" }).click();
      await region(page, "what is not due").or(region(page, "what is due")).first().waitFor();
      await page.keyboard.press("Escape");
    },
  },
  {
    name: "import",
    path: () => "/import?catalog=main",
    ready: async (page, world) => {
      await page.getByRole("textbox", { name: "Namespace" }).fill("sales");
      await page.getByRole("textbox", { name: "Name", exact: true }).fill("old_events");
      await page.getByRole("textbox", { name: "Location" }).fill(world.import);
      await page.getByRole("button", { name: "Check" }).click();
      await page.getByText("It can be imported").waitFor();
    },
  },
];

export const interactions = [
  {
    name: "a wrong token is refused in words, the right one goes on",
    token: "",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/browse?catalog=main`);
      await page.getByLabel(/^Token/).fill("wrong");
      await page.keyboard.press("Enter");
      await page.getByRole("alert").getByText("does not accept this token").waitFor();
      await page.getByLabel(/^Token/).fill(world.token);
      await page.keyboard.press("Enter");
      await heading(page, "Browse");
      assert.equal(await page.evaluate(() => sessionStorage.getItem("turnstile.token")), world.token);
      await page.getByRole("button", { name: "Log out" }).click();
      await page.getByLabel(/^Token/).waitFor();
      assert.equal(await page.evaluate(() => sessionStorage.getItem("turnstile.token")), null);
    },
  },
  {
    name: "login by the issuer, code flow with PKCE, back to where one was",
    token: "",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/browse?catalog=main&at=main.sales`);
      await page.getByRole("button", { name: /^Log in with/ }).click();
      await page.getByRole("link", { name: "main.sales.orders" }).waitFor();
      assert.match(page.url(), /\/ui\/browse\?catalog=main&at=main\.sales$/);
    },
  },
  {
    name: "who may read sees the tables, and is told what is for others",
    token: "",
    work: async (page, world, { axe }) => {
      await page.goto(`${world.url}/ui/`);
      await page.getByLabel(/^Token/).fill(world.reader);
      await page.keyboard.press("Enter");
      await page.getByText("The list of all tables is for administrators.").waitFor();
      await axe();
      await page.getByRole("link", { name: "Browse" }).last().click();
      await page.getByRole("link", { name: "main.sales", exact: true }).click();
      await page.getByRole("link", { name: "main.sales.orders" }).click();
      await region(page, "columns").getByText("Number of the order").waitFor();
      await page.getByRole("button", { name: /^Repair/ }).click();
      await page.getByRole("dialog").getByText("Not permitted").waitFor();
    },
  },
  {
    name: "a name is found from any screen, and a predicate that cannot be is refused in words",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/operations?catalog=main`);
      await heading(page, "Operations");
      await page.getByLabel("Find a name").fill("order");
      await page.keyboard.press("Enter");
      await page.getByRole("link", { name: "main.sales.orders" }).click();
      await tab(page, "Files");
      await page.getByLabel("Predicate").fill("upper(id) = 'A'");
      await page.getByRole("button", { name: "List files" }).click();
      await page.getByText(/functions are not supported/).waitFor();
    },
  },
  {
    name: "by the keyboard alone: past the menu, to a table",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/browse?catalog=main&at=main.sales`);
      const link = page.getByRole("link", { name: "main.sales.orders" });
      await link.waitFor();
      await page.keyboard.press("Tab");
      assert.equal(await page.evaluate(() => document.activeElement.textContent), "To the content");
      await page.keyboard.press("Enter");
      for (let step = 0; step < 30; step += 1) {
        await page.keyboard.press("Tab");
        if (await link.evaluate((element) => element === document.activeElement)) break;
      }
      await page.keyboard.press("Enter");
      await heading(page, "main.sales.orders");
      await page.getByRole("tab", { name: "Overview" }).focus();
      await page.keyboard.press("ArrowRight");
      await region(page, "commits").waitFor();
    },
  },
  {
    name: "publishing a stuck table says why it cannot be",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/`);
      await page.getByRole("button", { name: `Publish ${world.stuck}` }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("1 ratified commit will be copied").waitFor();
      await dialog.getByRole("button", { name: "Publish" }).click();
      await dialog.getByText("Published 0 versions").waitFor();
    },
  },
  {
    name: "a stuck table: what is wrong, both sides, and the choice",
    work: async (page, world, { axe }) => {
      await page.goto(`${world.url}/ui/`);
      await page.getByRole("button", { name: `Repair ${world.stuck}` }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("differs", { exact: true }).waitFor();
      await dialog.getByText("a writer past the catalog").waitFor();
      await axe();
      await dialog.getByRole("button", { name: "Keep the log" }).click();
      await dialog.getByText("Now: healthy").waitFor();
      await page.keyboard.press("Escape");
      await page.getByText("Every table is published").waitFor();
    },
  },
  {
    name: "checks of the deployment",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/`);
      await page.getByRole("button", { name: "Check now" }).click();
      const checks = section(page, "Checks of the deployment");
      await checks.getByText("ok", { exact: true }).first().waitFor();
      assert.equal(await checks.getByText("failed", { exact: true }).count(), 0);
    },
  },
  {
    name: "a path query that cannot be read is refused with what to do",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/browse?catalog=main`);
      await page.getByLabel("Path query").fill("/main/[name ==");
      await page.keyboard.press("Enter");
      await page.getByRole("alert").getByText("What to do").waitFor();
      await page.getByLabel("Path query").fill('/main/*/[name = "clicks"]');
      await page.keyboard.press("Enter");
      await page.getByRole("link", { name: "main.web.clicks" }).click();
      await heading(page, "main.web.clicks");
    },
  },
  {
    name: "dark and light by a button; the menu on a phone",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/`);
      await page.getByRole("button", { name: "Change to dark colours" }).click();
      assert.equal(await page.evaluate(() => document.documentElement.dataset.mantineColorScheme), "dark");
      await page.setViewportSize({ width: 390, height: 844 });
      await page.getByRole("button", { name: "Open the menu" }).click();
      await page.getByRole("link", { name: "Browse" }).click();
      await heading(page, "Browse");
    },
  },
  {
    name: "a snapshot is taken, and its name dropped; a reset is previewed and done",
    work: async (page, world, { axe }) => {
      await page.goto(`${world.url}/ui/history?catalog=main`);
      await page.getByLabel("Name of a new snapshot").fill("before_all");
      await page.getByRole("button", { name: "Take" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("button", { name: "Take" }).click();
      await dialog.getByText(/before_all is number/).waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Reset to month_end" }).click();
      await dialog.getByText("main.ops.runs → main.ops.jobs").waitFor();
      await axe();
      await page.keyboard.press("Escape");
      await send(page, world, "post", "/v1/catalogs/main/namespaces", { name: "a_mistake" });
      await page.getByRole("button", { name: "Reset to before_all" }).click();
      await dialog.getByText("main.a_mistake", { exact: true }).waitFor();
      await dialog.getByRole("button", { name: "Reset" }).click();
      await dialog.getByText(/main is as it was/).waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Drop before_all" }).click();
      await dialog.getByRole("button", { name: "Drop" }).click();
      await dialog.getByText("The name is dropped.").waitFor();
      await page.keyboard.press("Escape");
      await page.getByText("before_all", { exact: true }).waitFor({ state: "detached" });
    },
  },
  {
    name: "a branch is created as of a moment, renewed and dropped",
    work: async (page, world, { axe }) => {
      await page.goto(`${world.url}/ui/branches?catalog=main`);
      await page.getByLabel("Name of a new branch").fill("trial");
      await page.getByLabel("Days").fill("3");
      await page.getByLabel("Moment").fill("snapshot:month_end");
      await page.getByLabel("Comment").fill("to look around");
      await page.getByRole("button", { name: "Create", exact: true }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("shows main as of snapshot:month_end").waitFor();
      await dialog.getByRole("switch", { name: "Delta's registry of branches" }).check();
      await axe();
      await dialog.getByRole("button", { name: "Create" }).click();
      await dialog.getByText("main@trial is there").waitFor();
      await page.keyboard.press("Escape");
      await region(page, "branches").getByText("to look around").waitFor();
      const made = await (await page.request.get(`${world.url}/v1/catalogs/main/branches/trial`, { headers: { Authorization: `Bearer ${world.token}` } })).json();
      assert.equal(made.delta_registry, true);
      await page.getByLabel("Catalog", { exact: true }).getByRole("option", { name: "main@trial" }).waitFor({ state: "attached" });
      await page.getByRole("button", { name: "Renew main@trial" }).click();
      await dialog.getByLabel("Days").fill("0");
      await dialog.getByRole("button", { name: "Renew" }).click();
      await dialog.getByRole("alert").getByText("What to do: give 1 to 366").waitFor();
      await dialog.getByLabel("Days").fill("90");
      await dialog.getByRole("button", { name: "Renew" }).click();
      await dialog.getByText(/^main@trial ends on/).waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Drop main@trial" }).click();
      await dialog.getByText("Nothing was changed on it.").waitFor();
      await dialog.getByRole("button", { name: "Drop" }).click();
      await dialog.getByText("main@trial is dropped.").waitFor();
      await page.keyboard.press("Escape");
      await region(page, "branches").getByRole("link", { name: "main@trial", exact: true }).waitFor({ state: "detached" });
    },
  },
  {
    name: "a branch that breaks an expectation says why it is refused, and shows definitions of both sides",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/branches?catalog=main`);
      await region(page, "branches").getByRole("link", { name: "main@november", exact: true }).click();
      await heading(page, "main@november");
      await page.getByRole("alert").getByText(/^expectation 'positive' \(amount >= 0\)/).waitFor();
      assert.ok(await page.getByRole("button", { name: "Promote main@november" }).isDisabled());
      await page.getByRole("button", { name: "Compare the definitions of sales.refunds" }).click();
      await page.getByText("1 column differs.").waitFor();
      await region(page, "columns of both sides").getByRole("row", { name: /^added – carrier/ }).waitFor();
      await page.getByRole("button", { name: "Compare the definitions of sales.audit_november" }).click();
      await page.getByText("3 columns differ.").waitFor();
      await page.getByRole("button", { name: "Compare the definitions of web.clicks" }).click();
      await page.getByText("No column differs.").waitFor();
      await page.getByRole("button", { name: "Compare the definitions of sales.returns_2025" }).click();
      await region(page, "columns of both sides").getByText("dropped on the branch").waitFor();
      await region(page, "changed tables").getByRole("link", { name: "sales.returns", exact: true }).click();
      await heading(page, "main@november.sales.returns");
      await tab(page, "Rows");
      await page.getByText(/^All 4 rows at version/).waitFor();
    },
  },
  {
    name: "an expectation that a record decided names its principal and moment",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/branch/main@large?catalog=main`);
      const checks = region(page, "outcomes of expectations");
      await checks.getByRole("columnheader", { name: "Checked by" }).waitFor();
      await checks.getByRole("row", { name: new RegExp(`^passed sales.returns positive .* no operator, \\d+ \\w+ ${new Date().getFullYear()}`) }).waitFor();
      await checks.getByRole("row", { name: /^unchecked sales.returns key .* yes 2 / }).waitFor();
    },
  },
  {
    name: "a promotion of a branch is of the changes that were shown: others are refused, and afterwards history has its commit",
    work: async (page, world, { axe }) => {
      await page.goto(`${world.url}/ui/branch/main@fix?catalog=main`);
      await page.getByRole("button", { name: "Promote main@fix" }).click();
      const dialog = page.getByRole("dialog");
      const sides = dialog.getByRole("region", { name: "both sides" });
      await sides.getByRole("row", { name: /^sales.refunds version 1.* version 2: files \+1, rows \+1/ }).waitFor();
      await sides.getByRole("row", { name: /^sales.audit_fix nothing table as in main@fix/ }).waitFor();
      await sides.getByRole("row", { name: /^sales.returns version 1: 2 rows in 1 file .* version 2: 4 rows in 2 files/ }).waitFor();
      await dialog.getByText("1 column of sales.refunds differs.").waitFor();
      await dialog.getByRole("region", { name: "columns of sales.refunds on both sides" }).getByRole("row", { name: /^added – carrier/ }).waitFor();
      assert.equal(await dialog.getByText(/of sales.returns differ/).count(), 0);
      await dialog.getByText("2 of 2 expectations passed.").waitFor();
      await axe();
      await send(page, world, "post", "/v1/catalogs/main@fix/namespaces", { name: "late" });
      await dialog.getByRole("button", { name: "Promote" }).click();
      await dialog.getByRole("alert").getByText("has other changes than those of the state that was given").waitFor();
      await page.keyboard.press("Escape");
      await region(page, "changed names").getByText("late", { exact: true }).waitFor();
      await page.getByRole("button", { name: "Promote main@fix" }).click();
      await sides.getByRole("row", { name: /^late nothing namespace/ }).waitFor();
      await dialog.getByRole("button", { name: "Promote" }).click();
      await heading(page, "History");
      const { seq } = (await (await page.request.get(`${world.url}/v1/catalogs/main/log?max_results=1`, { headers: { Authorization: `Bearer ${world.token}` } })).json()).commits[0];
      await page.getByText(`From number ${seq} back.`).waitFor();
      await region(page, "log of the catalog").getByText(/^promote branch main@fix/).waitFor();
      await page.getByRole("link", { name: "Branches", exact: true }).click();
      await region(page, "branches").getByRole("link", { name: "main@november", exact: true }).waitFor();
      assert.equal(await region(page, "branches").getByText("main@fix").count(), 0);
    },
  },
  {
    name: "conflicts of a branch that come after its preview are all named, and its page drops it",
    work: async (page, world) => {
      await send(page, world, "post", "/v1/catalogs/main/branches", { name: "clash" });
      for (const name of ["first_clash", "second_clash"]) await send(page, world, "post", "/v1/catalogs/main@clash/namespaces", { name });
      await page.goto(`${world.url}/ui/branch/${encodeURIComponent("main@clash")}?catalog=main`);
      await page.getByRole("button", { name: "Promote main@clash" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("row", { name: /^second_clash nothing/ }).waitFor();
      for (const name of ["first_clash", "second_clash"]) await send(page, world, "post", "/v1/catalogs/main/namespaces", { name });
      await dialog.getByRole("button", { name: "Promote" }).click();
      const reasons = dialog.getByRole("alert").getByRole("listitem");
      await reasons.getByText("'first_clash' was created in the catalog, too").waitFor();
      await reasons.getByText("'second_clash' was created in the catalog, too").waitFor();
      await page.keyboard.press("Escape");
      await page.getByText("A promotion is refused for 2 reasons").waitFor();
      await page.getByRole("button", { name: "Drop main@clash" }).click();
      await dialog.getByText("first_clash: namespace created").waitFor();
      await dialog.getByRole("button", { name: "Drop" }).click();
      await heading(page, "Branches");
      await region(page, "branches").getByRole("link", { name: "main@november", exact: true }).waitFor();
      assert.equal(await region(page, "branches").getByText("main@clash").count(), 0);
    },
  },
  {
    name: "a branch is chosen, browsed and granted like a catalog",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/browse?catalog=main`);
      await page.getByLabel("Catalog", { exact: true }).selectOption("main@november");
      await page.getByRole("link", { name: "main@november.sales", exact: true }).click();
      assert.match(page.url(), /catalog=main%40november&at=main%40november\.sales$/);
      await page.getByRole("link", { name: "main@november.sales.audit_november", exact: true }).waitFor();
      await page.getByRole("link", { name: "main@november.sales.payments", exact: true }).click();
      await heading(page, "main@november.sales.payments");
      await page.reload();
      await region(page, "columns").getByText("Number of the order").waitFor();
      await page.getByLabel("Find a name").fill("click");
      await page.keyboard.press("Enter");
      await page.getByRole("link", { name: "main@november.web.clicks" }).click();
      await region(page, "snapshots").getByText("append").first().waitFor();
      await page.getByRole("link", { name: "Access", exact: true }).click();
      await page.getByRole("button", { name: "Show", exact: true }).click();
      await region(page, "grants on main@november").waitFor();
      await page.getByLabel("User or role", { exact: true }).fill("erin");
      await page.getByRole("checkbox", { name: "SELECT" }).check();
      await page.getByRole("button", { name: "Grant", exact: true }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("button", { name: "Grant" }).click();
      await dialog.getByText("It is granted.").waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "List principals" }).click();
      await region(page, "principals").getByText("SELECT on main@november").first().waitFor();
      await page.getByRole("link", { name: "Branches", exact: true }).click();
      await page.getByRole("note").getByText("branches have no branches of their own").waitFor();
      await page.getByRole("link", { name: "History", exact: true }).click();
      const log = await (await page.request.get(`${world.url}/v1/catalogs/main@november/log`, { headers: { Authorization: `Bearer ${world.token}` } })).json();
      await page.getByLabel("From", { exact: false }).fill(`seq:${log.commits.find(({ message }) => message.startsWith("create branch main@november")).seq}`);
      await page.getByRole("button", { name: "Compare", exact: true }).click();
      await page.getByText("main@november.sales.audit_november", { exact: true }).waitFor();
      assert.equal(await page.getByText("main@november.sales.refunds", { exact: true }).count(), 0);
      await page.getByRole("link", { name: "those of main" }).click();
      await region(page, "snapshots").getByText("Figures of the month").waitFor();
      await page.goto(`${world.url}/ui/branch/main@nothing`);
      await page.getByRole("alert").getByText("branch 'main@nothing' does not exist").waitFor();
    },
  },
  {
    name: "a dropped table is brought back under another name",
    work: async (page, world, { axe }) => {
      await page.goto(`${world.url}/ui/history?catalog=main`);
      await page.getByLabel("Search in log of the catalog").fill("thrown_away");
      await page.getByRole("button", { name: "Undrop ops.thrown_away" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Another name").fill("restored");
      await axe();
      await dialog.getByRole("button", { name: "Undrop" }).click();
      await dialog.getByRole("link", { name: "main.ops.restored" }).click();
      await heading(page, "main.ops.restored");
    },
  },
  {
    name: "a clone is previewed and made",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/history?catalog=main`);
      await page.getByLabel("Namespace or table").fill("sales.orders");
      await page.getByLabel("New name").fill("sales.orders_audit");
      await page.getByRole("button", { name: "Clone" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("main.sales.orders", { exact: true }).waitFor();
      await dialog.getByRole("button", { name: "Clone" }).click();
      await dialog.getByText(/is there, by commit/).waitFor();
      await page.keyboard.press("Escape");
      await page.goto(`${world.url}/ui/table/main.sales.orders_audit?catalog=main`);
      await page.getByText("pinned", { exact: true }).waitFor();
    },
  },
  {
    name: "of two announced transactions one is aborted, the other resumed",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/transactions`);
      await page.getByRole("button", { name: /^Abort/ }).first().click();
      await page.getByRole("dialog").getByRole("button", { name: "Abort" }).click();
      await page.getByRole("dialog").getByText("It is aborted.").waitFor();
      await page.keyboard.press("Escape");
      await page.getByText("aborted", { exact: true }).waitFor();
      await page.getByRole("button", { name: /^Resume/ }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText(world.orders).waitFor();
      await dialog.getByRole("button", { name: "Resume" }).click();
      await dialog.getByText("It is committed.").waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: /^Resume/ }).waitFor({ state: "detached" });
    },
  },
  {
    name: "a right is granted, seen in what somebody can do, and revoked",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/access?catalog=main`);
      await page.getByLabel("On", { exact: true }).selectOption("schema");
      await page.getByLabel("Full name").fill("main.sales");
      await page.getByRole("button", { name: "Show", exact: true }).click();
      await page.getByText("Nothing is granted here.").waitFor();
      await page.getByLabel("User or role", { exact: true }).fill("carol");
      await page.getByRole("checkbox", { name: "CREATE TABLE" }).check();
      await page.getByRole("button", { name: "Grant", exact: true }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("button", { name: "Grant" }).click();
      await dialog.getByText("It is granted.").waitFor();
      await page.keyboard.press("Escape");
      await page.getByLabel("User, client or role").fill("carol");
      await page.getByRole("button", { name: "Look", exact: true }).click();
      await page.getByText(/but a level above is not in use/).first().waitFor();
      await page.getByRole("button", { name: "Revoke from carol" }).click();
      await dialog.getByRole("button", { name: "Revoke" }).click();
      await dialog.getByText("It is revoked.").waitFor();
      await page.keyboard.press("Escape");
      await page.getByText("Nothing is granted here.").waitFor();
      await page.getByLabel("New owner").fill("dave");
      await page.getByRole("button", { name: "Hand over" }).click();
      await dialog.getByRole("button", { name: "Hand over" }).click();
      await dialog.getByText("It belongs to dave.").waitFor();
    },
  },
  {
    name: "a client is registered, its secret told once, and deleted",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/access`);
      await page.getByLabel("Name of a new client").fill("dashboard");
      await page.getByRole("button", { name: "Register" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("button", { name: "Register" }).click();
      await dialog.getByText("never told again").waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "New secret for dashboard" }).click();
      await dialog.getByRole("button", { name: "New secret" }).click();
      await dialog.getByText("never told again").waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Delete dashboard" }).click();
      await dialog.getByRole("button", { name: "Delete" }).click();
      await dialog.getByText("It is deleted.").waitFor();
    },
  },
  {
    name: "events come while one looks",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/events?catalog=main`);
      await page.getByText(/of the last seven days, and what comes/).waitFor();
      await send(page, world, "post", "/v1/catalogs/main/namespaces", { name: "came_later" });
      const { seq } = (await (await page.request.get(`${world.url}/v1/catalogs/main/log?max_results=1`, { headers: { Authorization: `Bearer ${world.token}` } })).json()).commits[0];
      await region(page, "events").getByText("catalog.changed").first().waitFor();
      await region(page, "events").getByRole("cell", { name: String(seq), exact: true }).first().waitFor();
    },
  },
  {
    name: "a path-based table is imported",
    work: async (page, world) => {
      await page.goto(`${world.url}/ui/import?catalog=main`);
      await page.getByRole("textbox", { name: "Namespace" }).fill("sales");
      await page.getByRole("textbox", { name: "Name", exact: true }).fill("old_events");
      await page.getByRole("textbox", { name: "Location" }).fill(world.import);
      await page.getByRole("button", { name: "Check" }).click();
      await page.getByRole("button", { name: "Import", exact: true }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Import" }).click();
      await page.getByRole("dialog").getByRole("link", { name: "main.sales.old_events" }).click();
      await heading(page, "main.sales.old_events");
    },
  },
  {
    name: "a snippet is copied",
    work: async (page, world) => {
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      await page.goto(`${world.url}/ui/connect?catalog=main`);
      await page.getByRole("tab", { name: "DuckDB" }).click();
      await page.getByRole("button", { name: "Copy" }).click();
      await page.getByRole("button", { name: "Copied" }).waitFor();
      assert.match(await page.evaluate(() => navigator.clipboard.readText()), /ATTACH 'main' AS lake/);
    },
  },
  {
    name: "a branch is updated; then some of its tables are promoted, though another one breaks an expectation",
    work: async (page, world, { axe }) => {
      await page.goto(`${world.url}/ui/branch/main@large?catalog=main`);
      await page.getByRole("button", { name: "Update main@large" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("It is refused where both changed the same.").waitFor();
      await dialog.getByRole("button", { name: "Update" }).click();
      await dialog.getByRole("status").getByText(/^main@large shows main as of/).waitFor();
      await page.keyboard.press("Escape");
      await region(page, "changed tables").getByText("sales.parcels", { exact: true }).waitFor();
      await page.getByRole("button", { name: "Promote tables of main@large" }).click();
      await dialog.getByRole("region", { name: "both sides" }).getByRole("row", { name: /^sales.parcels/ }).waitFor();
      await dialog.getByText("sales.returns: key is unchecked", { exact: false }).waitFor();
      assert.ok(await dialog.getByRole("button", { name: "Promote tables" }).isDisabled());
      await axe();
      await dialog.getByRole("checkbox", { name: "sales.parcels" }).check();
      await dialog.getByRole("button", { name: "Promote tables" }).click();
      await dialog.getByText("1 table promoted").waitFor();
      await page.keyboard.press("Escape");
      await region(page, "changed tables").getByText("sales.parcels", { exact: true }).waitFor({ state: "detached" });
      await region(page, "changed tables").getByText("sales.returns", { exact: true }).waitFor();
    },
  },
  {
    name: "a nightly load that breaks an expectation is mended on its branch and promoted, as the how-to says",
    work: async (page, world, { shoot }) => {
      await page.goto(`${world.url}/ui/branches?catalog=main`);
      await region(page, "branches").getByRole("link", { name: "main@night", exact: true }).waitFor();
      await shoot("night-listed", { height: 545 });
      await region(page, "branches").getByRole("link", { name: "main@night", exact: true }).click();
      await heading(page, "main@night");
      await region(page, "changed tables").getByRole("row", { name: /^default.sales .* \+1 \+2 / }).waitFor();
      await page.getByRole("heading", { name: "What it changes" }).evaluate((title) => scrollTo(0, title.getBoundingClientRect().top + scrollY - 80));
      await shoot("night-changes", { height: 485 });
      await region(page, "outcomes of expectations").getByText("broken", { exact: true }).waitFor();
      await shoot("night-refused", { part: section(page, "Expectations") });
      await send(page, world, "post", world.mended.path, world.mended.proposal);
      await page.getByRole("button", { name: "Compare again" }).click();
      await page.getByRole("button", { name: "Promote main@night" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("region", { name: "both sides" }).getByRole("row", { name: /^default.sales version 0: 0 rows in 0 files version 1: files \+1, rows \+1/ }).waitFor();
      await dialog.getByText("2 of 2 expectations passed.").waitFor();
      await shoot("night-promotion", { height: 470 });
      await dialog.getByRole("button", { name: "Promote" }).click();
      await heading(page, "History");
      await page.goto(`${world.url}/ui/table/main.default.sales?catalog=main`);
      await tab(page, "Commits");
      await region(page, "commits").getByText("PROMOTE BRANCH").waitFor();
      await shoot("night-history", { height: 425 });
    },
  },
];
