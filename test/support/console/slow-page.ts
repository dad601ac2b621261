import { setTimeout as sleep } from 'node:timers/promises'
import type { Page } from 'playwright-core'

/** What slows every page; see test/README.md. A test that looks before the page has got there fails under one of them. */
const SLOW = process.env['EDGE_TEST_SLOW_PAGE']
/** Longer than a test takes from one line to the next. */
const MAX_DELAY_MS = 800
const CPU_RATE = 8
/** The focus moves in frames and timers, and charts are drawn in them. */
const LATE_FRAMES = `{
  const { setTimeout } = window
  window.setTimeout = (callback, ms = 0, ...rest) => setTimeout(callback, ms + ${MAX_DELAY_MS / 2}, ...rest)
  window.requestAnimationFrame = (callback) => setTimeout(() => callback(performance.now()), ${MAX_DELAY_MS / 2})
  window.cancelAnimationFrame = clearTimeout
}`

/** Slows a page that has not gone anywhere yet, and those that it opens, as EDGE_TEST_SLOW_PAGE says. */
export async function slowed(page: Page): Promise<Page> {
  if (SLOW === 'responses') await delayResponses(page)
  if (SLOW === 'frames') await page.context().addInitScript(LATE_FRAMES)
  if (SLOW === 'cpu') await (await page.context().newCDPSession(page)).send('Emulation.setCPUThrottlingRate', { rate: CPU_RATE })
  return page
}

/** Each by another time, so that they overtake one another; those that a test makes up itself, too. */
async function delayResponses(page: Page): Promise<void> {
  const route = page.route.bind(page)
  page.route = (url, respond, options) => route(url, (each, request) => afterDelay(() => respond(each, request)), options)
  await page.context().route('**/admin/v1/**', (each) => afterDelay(() => each.fallback()))
}

async function afterDelay(respond: () => unknown): Promise<void> {
  await sleep(Math.random() * MAX_DELAY_MS)
  try {
    await respond()
  } catch (error) {
    // The test has ended its route meanwhile, and the request has passed.
    if (!String(error).includes('Route is already handled')) throw error
  }
}
