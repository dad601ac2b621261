import { hostname } from 'node:os'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { inEveryView, openRequests } from '../support/console/every-view.ts'
import { running } from '../support/service/running.ts'
import { serverPort } from '../support/service/server-port.ts'
import { until } from '../support/until.ts'

const BUNDLE = bundle(7, policy('search', { rules: [bucketRule('r', ['header:x-k'], 10, 1)] }))

describeInBrowser('the shell', () => {
  test('says which instance this is, what it runs, how it is and who is looking', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort, {}, 'ada')
    const header = page.getByRole('banner')
    for (const text of ['No problems', `${hostname()}:${edge.adminPort}`, 'bundle 7', 'ada']) await header.getByText(text).waitFor()
    await edge.publish('nonsense')
    await header.getByText('1 problem').waitFor()
  })

  test.each([
    ['a desk', { width: 1280, height: 800 }],
    ['a phone', { width: 375, height: 750 }],
  ])('tabs do not move when one is chosen, and all can be reached, on %s', async (_where, viewport) => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort, { viewport })
    const links = page.getByRole('navigation', { name: 'Views' }).getByRole('link')
    const widths = async (): Promise<number[]> =>
      Promise.all((await links.all()).map(async (link) => Math.round((await link.boundingBox())!.width * 10)))
    const before = await widths()
    for (const link of await links.all()) {
      await link.click()
      await expect.poll(() => link.getAttribute('aria-current')).toBe('page')
      expect(await widths()).toEqual(before)
      await expect.poll(async () => (await link.boundingBox())!.x).toBeGreaterThan(-1)
      await expect.poll(async () => (await link.boundingBox())!.x + (await link.boundingBox())!.width).toBeLessThan(viewport.width + 1)
    }
  })

  test('the header takes less than an eighth of a phone, and says that there are more views', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort, { viewport: { width: 375, height: 750 } }, 'ada')
    await page.getByRole('banner').getByText('No problems').waitFor()
    expect((await page.locator('.top').boundingBox())!.height).toBeLessThan(750 / 8)
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(375)
    const views = page.getByRole('navigation', { name: 'Views' })
    await expect.poll(() => views.getAttribute('class')).toBe('more-right')
    await page.getByRole('link', { name: 'Changes' }).click()
    await expect.poll(() => views.getAttribute('class')).toBe('more-left')
  })

  test.each([768, 1280, 1920])(
    'the views and the field for callers are aligned with what is above and below them, %i wide',
    async (width) => {
      const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
      const page = await loggedIn(edge.adminPort, { viewport: { width, height: 800 } })
      const rightOf = (selector: string): Promise<number> =>
        page.evaluate(`document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect().right`)
      const edges = () => Promise.all(['main > :last-child', '.who', '.find'].map(rightOf))
      await expect.poll(async () => new Set(await edges()).size).toBe(1)
    },
  )

  test('on a tablet the last view is not below the faded edge, and no key is advertised', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort, { viewport: { width: 768, height: 1024 }, hasTouch: true })
    const views = page.getByRole('navigation', { name: 'Views' })
    await views.getByRole('link', { name: 'Changes' }).click()
    await expect.poll(() => views.getAttribute('class')).toBe('more-left')
    expect(await page.locator('.find .key').isVisible()).toBe(false)
  })

  test('a table that scrolls says so, and where there is more', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    const table = page.getByRole('group', { name: /^Policies, the busiest first/ })
    await table.waitFor()
    const hint = page.getByText('Scroll sideways for all columns.')
    await expect.poll(async () => [await table.getAttribute('class'), await hint.count()]).toEqual(['table', 0])
    await page.setViewportSize({ width: 240, height: 700 })
    await expect.poll(() => table.getAttribute('class')).toBe('table more-right')
    await hint.first().waitFor()
    await table.evaluate((element: unknown) => ((element as { scrollLeft: number }).scrollLeft += 9999))
    await expect.poll(() => table.getAttribute('class')).toBe('table more-left')
  })

  test('shows the view that the address names, moves the focus to its heading, and goes back', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.getByRole('link', { name: 'Events' }).click()
    const heading = page.getByRole('heading', { level: 1 })
    await expect.poll(() => page.title()).toBe('Events · edge')
    await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Events')
    expect(new URL(page.url()).hash).toBe('#/events')
    await page.reload()
    await expect.poll(() => heading.textContent()).toBe('Events')
    await page.goBack()
    await expect.poll(() => heading.textContent()).toBe('Overview')
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/no-such-view`)
    await expect.poll(() => heading.textContent()).toBe('Overview')
  })

  test('has the focus in its place as soon as a view, a form or a dialog is there: a key that is pressed then is not lost', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    // Called before the browser draws what has changed: whether each has the focus when it is first there.
    await page.evaluate(`window.atFirst = {}
      new MutationObserver(() => {
        for (const part of document.querySelectorAll('h1, main form, dialog'))
          window.atFirst[part.localName === 'h1' ? part.textContent : part.localName] ??= part.contains(document.activeElement)
      }).observe(document.body, { childList: true, subtree: true })`)
    await page.getByRole('link', { name: 'Overrides', exact: true }).click()
    await page.getByRole('button', { name: 'New override' }).click()
    await page.getByLabel('Policy').waitFor()
    await page.getByRole('button', { name: 'Stop enforcing…' }).click()
    await page.getByRole('dialog').waitFor()
    expect(await page.evaluate('window.atFirst')).toMatchObject({ Overrides: true, form: true, dialog: true })
  })

  test('ends the session with a click, and shows nothing of it any more', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.getByText('search').first().waitFor()
    const cookies = await page.context().cookies()
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.locator('input[type=password]').waitFor()
    expect(await page.getByText('search').count()).toBe(0)
    await page.context().addCookies(cookies)
    await page.reload()
    await page.locator('input[type=password]').waitFor()
  })

  test('asks for the token again when the session has ended, and keeps what was typed', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.getByRole('link', { name: 'Events' }).click()
    await expect.poll(() => page.title()).toBe('Events · edge')
    await page.getByLabel('Filter').fill('half a thought')
    await page.context().clearCookies()
    const dialog = page.getByRole('dialog', { name: 'Log in again' })
    await dialog.locator('input[type=password]').fill(ADMIN_TOKEN)
    await page.keyboard.press('Escape')
    await dialog.getByRole('button', { name: 'Log in' }).click()
    await dialog.waitFor({ state: 'detached' })
    expect(await page.getByLabel('Filter').inputValue()).toBe('half a thought')
    await page.locator('main input:focus').waitFor()
    await page.keyboard.type('!')
    await expect.poll(() => page.getByLabel('Filter').inputValue()).toBe('half a thought!')
    await page.getByText('Live').waitFor()
  })

  test('moves the focus to the heading where the view is another after the login', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.getByRole('link', { name: 'Events' }).click()
    await expect.poll(() => page.title()).toBe('Events · edge')
    await page.getByLabel('Filter').focus()
    await page.context().clearCookies()
    const dialog = page.getByRole('dialog', { name: 'Log in again' })
    await dialog.locator('input[type=password]').fill(ADMIN_TOKEN)
    await page.evaluate('location.hash = "#/explain"')
    await expect.poll(() => page.title()).toBe('Explain · edge')
    await dialog.getByRole('button', { name: 'Log in' }).click()
    await dialog.waitFor({ state: 'detached' })
    await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Explain')
  })

  test('says in a form that the session had ended, and takes it then', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.getByRole('link', { name: 'Explain' }).click()
    await page.getByLabel('URI').fill('/x')
    const body = '{"error":{"message":"send the admin token","type":"unauthorized","code":"unauthorized"}}'
    await page.route('**/admin/v1/explain', (route) => route.fulfill({ status: 401, body }), { times: 1 })
    await page.route('**/admin/v1/session', (route) =>
      route.request().method() === 'GET' ? route.fulfill({ status: 401, body }) : route.continue(),
    )
    await page.getByRole('button', { name: 'Explain' }).click()
    const dialog = page.getByRole('dialog', { name: 'Log in again' })
    await dialog.locator('input[type=password]').fill(ADMIN_TOKEN)
    await dialog.getByRole('button', { name: 'Log in' }).click()
    await page.getByText('Your session had ended. Try again.').waitFor()
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByText('Nothing was taken').waitFor()
  })

  test('goes on with the session of another tab, and says whose it is', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort, {}, 'ada')
    await page.getByRole('link', { name: 'Explain' }).click()
    await page.getByLabel('URI').fill('/x')
    const other = await page.context().newPage()
    await other.goto(`http://127.0.0.1:${edge.adminPort}/`)
    await logInAgain(other, 'grace')
    await page.getByRole('banner').getByText('grace').waitFor()
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByText('Nothing was taken').waitFor()
  })

  test('and asks for no login once another tab has logged in', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort, {}, 'ada')
    await page.context().clearCookies()
    const dialog = page.getByRole('dialog', { name: 'Log in again' })
    await dialog.waitFor()
    const other = await page.context().newPage()
    await other.goto(`http://127.0.0.1:${edge.adminPort}/`)
    await logIn(other, 'ada')
    await dialog.waitFor({ state: 'detached' })
    await page.getByText('Live').waitFor()
  })

  test('nor when it is told of the end of a session that is not the last one', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    const body = '{"error":{"message":"send the admin token","type":"unauthorized","code":"unauthorized"}}'
    const isAsked = page.waitForRequest('**/admin/v1/session')
    await page.route('**/admin/v1/status', (route) => route.fulfill({ status: 401, body }), { times: 1 })
    await isAsked
    await page.getByRole('dialog', { name: 'Log in again' }).waitFor({ state: 'detached' })
    await page.getByText('Live').waitFor()
  })

  test('ends a session that could not be ended before it shows anything', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.route('**/admin/v1/**', (route) => route.abort())
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.locator('input[type=password]').waitFor()
    await page.unroute('**/admin/v1/**')
    await page.reload()
    await page.locator('input[type=password]').waitFor()
    await expect.poll(async () => (await page.context().cookies()).length).toBe(0)
    await page.reload()
    await page.locator('input[type=password]').waitFor()
  })

  test('does not say that all is well where the API says no, in whatever form', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    const header = page.getByRole('banner')
    await header.getByText('No problems').waitFor()
    const answer = async (status: number, body: string, shown: string): Promise<void> => {
      await page.route('**/admin/v1/**', (route) => route.fulfill({ status, body }))
      await header.getByText(shown).waitFor()
      expect(await header.getByText('No problems').count()).toBe(0)
      await page.getByText(`There are no new figures: ${shown}`).waitFor()
    }
    await answer(403, '{"message":"forbidden"}', 'the response is not one of the admin API')
    await page.unroute('**/admin/v1/**')
    await header.getByText('No problems').waitFor()
    await answer(200, '', 'the response is not one of the admin API')
    await answer(403, '{"error":{"message":"not today","type":"x","code":"y"}}', 'not today')
    await page.getByRole('link', { name: 'Policies', exact: true }).click()
    await page.getByRole('main').getByText('not today', { exact: true }).waitFor()
    expect(await page.getByText('The bundle has no policies').count()).toBe(0)
    await page.unroute('**/admin/v1/**')
    await header.getByText('No problems').waitFor()
  })

  test('says that the connection is lost, keeps what it shows, and goes on when edge is back', async () => {
    const env = { ...ADMIN_ENV, EDGE_ADMIN_PORT: String(await serverPort()) }
    const first = await running({ bundle: BUNDLE, env })
    const page = await loggedIn(first.adminPort)
    await page.getByText('search').first().waitFor()
    await first.stop()
    const header = page.getByRole('banner')
    await header.getByText('Connection lost').waitFor()
    await header.getByText(/last data \d.* ago/).waitFor()
    await expect.poll(() => page.getByRole('status').first().textContent()).toMatch(/Connection lost/)
    expect(await page.getByText('search').count()).toBeGreaterThan(0)
    const later = bundle(8, policy('search', { rules: [bucketRule('r', ['header:x-k'], 10, 1)] }), policy('reports', { rules: [] }))
    await running({ bundle: later, env })
    await header.getByText('No problems').waitFor()
    await header.getByText('bundle 8').waitFor()
    await page.getByText('reports').first().waitFor()
  })

  test('tries at once when it is told to', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.clock.install()
    await page.reload()
    await page.getByText('No problems').waitFor()
    const open = openRequests(page)
    await page.route('**/admin/v1/**', (route) => route.abort())
    await page.getByRole('banner').getByText('Connection lost').waitFor()
    // Its clock stands still from there, so that it does not try by itself, and nothing that it has tried is under way.
    await page.clock.pauseAt(Date.now() + 3_600_000)
    await untilSent(page)
    await until(() => open.size === 0)
    await page.unroute('**/admin/v1/**')
    await page.getByRole('button', { name: 'Retry now' }).click()
    await page.getByText('No problems').waitFor()
  })

  test('takes a proxy that speaks for edge for a lost connection', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.route('**/admin/v1/**', (route) => route.fulfill({ status: 502, body: '<html>Bad Gateway</html>' }))
    await page.getByRole('banner').getByText('Connection lost').waitFor()
    await page.unroute('**/admin/v1/**')
    await page.getByText('No problems').waitFor()
  })

  test('asks for nothing while nobody can see it', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.getByText('No problems').waitFor()
    await page.clock.install()
    await page.reload()
    await page.getByText('No problems').waitFor()
    await becomes(page, 'hidden')
    const asked = await countRequests(page)
    await page.clock.fastForward(60_000)
    expect(await asked()).toBe(0)
    await becomes(page, 'visible')
    await expect.poll(asked).toBeGreaterThan(0)
  })

  test('has a state for an instance without a bundle in every view', async () => {
    const edge = await running({ env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await inEveryView(page, async (title) => {
      expect([title, (await page.locator('main').innerText()).length > title.length]).toEqual([title, true])
    })
  })
})

/** What it has asked the API for since. */
async function countRequests(page: Page): Promise<() => Promise<number>> {
  await untilSent(page)
  let count = 0
  page.on('request', (request) => {
    if (request.url().includes('/admin/v1/')) count++
  })
  return async () => {
    await untilSent(page)
    return count
  }
}

/** Asks for something that comes behind everything that the page has sent before. */
async function untilSent(page: Page): Promise<void> {
  await page.evaluate("fetch('/livez').then((response) => response.text())")
}

async function becomes(page: Page, state: 'hidden' | 'visible'): Promise<void> {
  await page.evaluate(`Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))`)
}

async function logInAgain(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name: 'Log out' }).click()
  await logIn(page, name)
}

async function logIn(page: Page, name: string): Promise<void> {
  await page.locator('input[type=password]').fill(ADMIN_TOKEN)
  await page.getByLabel('Your name').fill(name)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('navigation', { name: 'Views' }).waitFor()
}
