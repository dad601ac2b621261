import { accessSync } from 'node:fs'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest'
import { ADMIN_TOKEN } from '../admin/admin-client.ts'
import { describeWith } from '../describe-with.ts'
import { slowed } from './slow-page.ts'

const CHROMIUM = '/usr/bin/chromium-headless-shell'
/** Nothing is looked up or loaded from elsewhere. Chromium runs as root only without its sandbox. */
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** Only ends what hangs: by default Playwright gives up after 30 s, which a busy machine may need to start Chromium alone. */
const LIMIT_MS = 240_000
/** The page gives a request up after 10 s, and tests of what it then says abort one themselves. */
const NEVER_GIVE_UP = 'AbortSignal.timeout = () => new AbortController().signal'

let browser: Browser | undefined

/** Tests of the operators' page in a real Chromium, which is started once for a file. */
export function describeInBrowser(name: string, body: () => void): void {
  describeWith(isInstalled() ? undefined : `${CHROMIUM} is not installed: sh scripts/install-test-parts.sh`, name, () => {
    beforeAll(async () => {
      browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS, timeout: LIMIT_MS })
    })
    afterAll(() => browser?.close())
    body()
  })
}

/** A page of its own, without cookies. What it logs as an error, a refused resource or script included, fails the test. */
export async function newPage(options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser!.newContext({ viewport: { width: 1280, height: 800 }, ...options })
  context.setDefaultTimeout(LIMIT_MS)
  await context.addInitScript(NEVER_GIVE_UP)
  const page = await context.newPage()
  const problems: string[] = []
  page.on('pageerror', (error) => problems.push(String(error)))
  page.on('console', (message) => {
    // A response that is no success is logged too: the tests look at those themselves.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) problems.push(message.text())
  })
  onTestFinished(async () => {
    // A request may be on its way through a handler of the test: that it comes to nothing is no failure.
    for (const routed of page.isClosed() ? [context] : [page, context]) await routed.unrouteAll({ behavior: 'ignoreErrors' })
    await context.close()
    expect(problems).toEqual([])
  })
  return slowed(page)
}

/** The page of the service whose admin port this is, logged in. */
export async function loggedIn(port: number, options: BrowserContextOptions = {}, actor = ''): Promise<Page> {
  const page = await newPage(options)
  await page.goto(`http://127.0.0.1:${port}/`)
  await page.locator('input[type=password]').fill(ADMIN_TOKEN)
  await page.getByLabel('Your name').fill(actor)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('navigation', { name: 'Views' }).waitFor()
  return page
}

function isInstalled(): boolean {
  try {
    accessSync(CHROMIUM)
    return true
  } catch {
    return false
  }
}
