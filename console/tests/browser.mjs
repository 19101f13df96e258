// A headless Chromium: the one that CHROMIUM names, else the one in the package @sparticuz/chromium, which needs no download.
import { chromium } from "playwright-core";

export async function launch() {
  if (process.env.CHROMIUM) return chromium.launch({ executablePath: process.env.CHROMIUM });
  const { default: packed } = await import("@sparticuz/chromium");
  // Its own arguments are for Lambda: a single process, which ends with the first window that is closed.
  const args = packed.args.filter((argument) => !["--single-process", "--no-zygote"].includes(argument));
  return chromium.launch({ executablePath: await packed.executablePath(), args });
}
