// Every screen in a headless Chromium, on the server that tests/console started: what it shows, what its buttons do, whether
// axe finds anything against WCAG 2 AA, whether a page is wider than a phone, how long the first paint takes.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { AxeBuilder } from "@axe-core/playwright";
import { launch } from "./browser.mjs";
import { SCREENS, interactions } from "./screens.mjs";

const world = JSON.parse(process.env.CONSOLE_WORLD);
const SIZES = { wide: { width: 1280, height: 800 }, narrow: { width: 390, height: 844 } };
const FIRST_PAINT_MS = 1000;
const WAIT_MS = Number(process.env.CONSOLE_WAIT_MS ?? 20_000);
const only = process.env.CONSOLE_ONLY ?? "";

/** The pages of the docs, which say which screenshots there are. */
const SHOWN = ["console.md", "how-to/branches.md"].map((page) => readFileSync(new URL(`../../docs/${page}`, import.meta.url), "utf8")).join();

if (world.images) mkdirSync(world.images, { recursive: true });
const browser = await launch();
const failures = [];

async function attempt(name, work) {
  if (!name.includes(only)) return;
  const begun = Date.now();
  try {
    await work();
    console.log(`ok      ${name} (${Date.now() - begun} ms)`);
  } catch (error) {
    failures.push(name);
    console.log(`FAILED  ${name}: ${error.stack ?? error}`);
  }
}

/** A page with nothing from before; what its console complains of, and answers 5xx, are failures. */
async function opened({ size = "wide", colorScheme = "light", token = world.token } = {}) {
  const context = await browser.newContext({ viewport: SIZES[size], colorScheme, locale: "en-GB", reducedMotion: "reduce" });
  if (token) await context.addInitScript((held) => sessionStorage.setItem("turnstile.token", held), token);
  const page = await context.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    const expected = /Failed to load resource: the server responded with a status of 4\d\d/;
    if (message.type() === "error" && !expected.test(message.text())) complaints.push(message.text());
  });
  page.on("response", (response) => {
    if (response.status() >= 500) complaints.push(`${response.status()} ${response.url()}`);
  });
  page.setDefaultTimeout(WAIT_MS);
  return { page, complaints, close: () => context.close() };
}

/** A screenshot, if the docs show it, of `part` of the page; without it of the window, as far down as `height`. */
async function shoot(page, name, { height, part } = {}) {
  const image = `${name}.png`;
  if (!world.images || !SHOWN.includes(`/${image}`)) return;
  await page.mouse.move(0, 0); // no row or button is highlighted
  const path = join(world.images, image);
  if (part) await part.screenshot({ path });
  else await page.screenshot({ path, ...(height && { clip: { x: 0, y: 0, width: page.viewportSize().width, height } }) });
}

async function axe(page) {
  const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]).analyze();
  const told = violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target.join(" ")}: ${node.failureSummary?.split("\n").slice(1, 3).join(" ")}`));
  assert.deepEqual(told.slice(0, 6), []);
}

async function fits(page) {
  const [content, window] = await page.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth]);
  assert.ok(content <= window, `the page is ${content} wide in a window of ${window}`);
}

for (const { name, path, ready, anonymous, idle = true } of SCREENS) {
  for (const [size, colorScheme] of [["wide", "light"], ["wide", "dark"], ["narrow", "light"], ["narrow", "dark"]]) {
    await attempt(`${name}, ${size}, ${colorScheme}`, async () => {
      const { page, complaints, close } = await opened({ size, colorScheme, token: anonymous ? "" : world.token });
      try {
        await page.goto(`${world.url}/ui${path(world)}`);
        await ready(page, world);
        if (idle) await page.waitForLoadState("networkidle");
        await shoot(page, `${name}-${size}-${colorScheme}`);
        await fits(page);
        await axe(page);
        assert.deepEqual(complaints, []);
      } catch (error) {
        throw new Error(`${error.message}\n${complaints.join("\n")}`);
      } finally {
        await close();
      }
    });
  }
}

for (const { name, work, token } of interactions) {
  await attempt(name, async () => {
    const { page, complaints, close } = await opened({ token: token === undefined ? world.token : token });
    try {
      await work(page, world, { axe: () => axe(page), shoot: (image, what) => shoot(page, image, what) });
      assert.deepEqual(complaints, []);
    } catch (error) {
      throw new Error(`${error.message}\n${complaints.join("\n")}`);
    } finally {
      await close();
    }
  });
}

await attempt("first paint", async () => {
  const paints = [];
  for (let visit = 0; visit < 5; visit += 1) {
    const { page, close } = await opened();
    await page.goto(`${world.url}/ui/`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    paints.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
    await close();
  }
  paints.sort((one, other) => one - other);
  console.log(`first contentful paint, five visits with an empty cache: ${paints.map((ms) => Math.round(ms)).join(", ")} ms`);
  assert.ok(paints[2] < FIRST_PAINT_MS, `the median is ${paints[2]} ms`);
});

await browser.close();
console.log(failures.length ? `${failures.length} failed` : "all passed");
process.exit(failures.length ? 1 : 0);
