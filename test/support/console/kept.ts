import type { Page } from 'playwright-core'

/** What the browser keeps for a page, or shows of it: storage, addresses, typed and drawn text. */
export async function keptAndShown(page: Page): Promise<string> {
  return JSON.stringify(
    await page.evaluate(`(async () => ({
      cookie: document.cookie,
      storage: [{ ...localStorage }, { ...sessionStorage }],
      databases: await indexedDB.databases(),
      caches: await caches.keys(),
      name: window.name,
      state: history.state,
      html: document.documentElement.outerHTML,
      typed: [...document.querySelectorAll('input, textarea')].map(({ value }) => value),
      asked: performance.getEntries().map(({ name }) => name),
      address: location.href,
    }))()`),
  )
}
