import type { Locator, Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ADMIN_ENV } from '../support/admin/admin-client.ts'
import { Operator } from '../support/admin/operator.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import type { Edge } from '../support/service/edge.ts'
import { running } from '../support/service/running.ts'

/** So few tokens a second that none comes back while the test runs. */
const HARDLY_ANY = 0.0001
const BUNDLE = bundle(
  1,
  policy('api', { selector: { pathPrefix: '/api' }, rules: [bucketRule('per-key', ['header:x-k'], 2, HARDLY_ANY)] }),
  policy('shared', { selector: { pathPrefix: '/shared' }, rules: [bucketRule('all', [], 1, HARDLY_ANY)] }),
  policy('trial', { mode: 'shadow', selector: { pathPrefix: '/trial' }, rules: [bucketRule('per-key', ['header:x-k'], 1, HARDLY_ANY)] }),
  policy('token', { selector: { pathPrefix: '/token' }, rules: [bucketRule('per-token', ['bearer', 'header:x-k'], 1, HARDLY_ANY)] }),
)
const SECRET = 'secret-token-of-alice'
const TOKEN_ROW = /^bearer [0-9a-f]{16} \(digest\) header:x-k alice token · per-token 3$/
const MARKUP = '<img src=x onerror=alert(1)><b>bold</b>'

describeInBrowser('the callers', () => {
  test('are listed, the most rejected first, of one policy if asked', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await open(edge)
    await page.getByText('Nobody was rejected.').waitFor()
    await page.getByText('Nobody was active lately.').waitFor()
    await edge.decideTimes(3, caller('alice'))
    await edge.decideTimes(5, caller('bob'))
    await edge.decideTimes(1, caller('carol'))
    await edge.decideTimes(4, tokenCaller('alice'))
    await expect
      .poll(async () => {
        await page.getByRole('button', { name: 'Sort again' }).first().click()
        return texts(rejected(page))
      })
      .toEqual(['header:x-k bob api · per-key 3', expect.stringMatching(TOKEN_ROW), 'header:x-k alice api · per-key 1'])
    await expect.poll(() => texts(nearest(page))).toContain('header:x-k carol api · per-key 1 of 2 requests, 50 %')
    await page.getByLabel('Policy').first().fill('api')
    await expect.poll(() => texts(rejected(page))).toEqual(['header:x-k bob api · per-key 3', 'header:x-k alice api · per-key 1'])
    await expect.poll(() => page.url()).toContain('#/callers?policy=api')
    await page.reload()
    await expect.poll(() => texts(rejected(page))).toEqual(['header:x-k bob api · per-key 3', 'header:x-k alice api · per-key 1'])
    await page.getByLabel('Rule').first().selectOption('per-key')
    await expect.poll(async () => page.url()).toContain('#/callers?policy=api&rule=per-key')
    await page.getByLabel('Policy').first().fill('')
    await expect.poll(() => rejected(page).count()).toBe(3)
  })

  test('of a rule without keys are everybody', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await open(edge)
    await edge.decideTimes(3, { uri: '/shared' })
    await expect.poll(() => texts(rejected(page))).toEqual(['everybody shared · all 2'])
  })

  test('that share a counter are everybody, who pass again after a reset', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await open(edge)
    await edge.decideTimes(3, { uri: '/shared' })
    await page.getByRole('button', { name: 'Counters of everybody' }).first().click()
    const dialog = page.getByRole('dialog', { name: 'shared · all' })
    await dialog.getByText('0 of 1 request left').waitFor()
    await dialog.getByRole('button', { name: 'Reset…' }).click()
    await page.getByRole('dialog', { name: 'Make these counters full?' }).waitFor()
    await page.keyboard.type('ticket 4711')
    await page.keyboard.press('Enter')
    await dialog.getByText('The counters are full.').waitFor()
    await dialog.getByText('1 of 1 request left').waitFor()
    expect(await edge.decideTimes(2, { uri: '/shared' })).toEqual([200, 429])
    await dialog.getByText('0 of 1 request left').waitFor()
    expect(edge.logged('counter_reset')).toMatchObject([{ policy: 'shared', rule: 'all', reason: 'ticket 4711' }])
    await page.keyboard.press('Escape')
    await expect.poll(() => dialog.count()).toBe(0)
  })

  test('have the hour, the first and the last reject, and a policy in shadow mode is marked', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await open(edge)
    await edge.decideTimes(4, caller('alice'))
    await edge.decideTimes(2, { ...caller('alice'), uri: '/trial' })
    const columns = page.getByRole('region', { name: 'Rejected most' }).getByRole('columnheader')
    await expect.poll(() => columns.allTextContents()).toEqual(['Caller', 'Rejects, last minutes', 'Last hour', 'First', 'Last', 'Actions'])
    await expect
      .poll(async () => (await rejected(page).first().getByRole('cell').allTextContents()).slice(0, 4))
      .toEqual(['2', '2', expect.stringMatching(/^\d\d:\d\d:\d\d UTC/), expect.stringMatching(/ago|now/)])
    await expect.poll(() => texts(nearest(page))).toContain('header:x-k alice trial · per-key shadow 0 of 1 request, 0 %')
    await nearest(page).getByRole('link', { name: 'trial' }).click()
    await expect.poll(() => new URL(page.url()).hash).toBe('#/policies?policy=trial')
  })

  test('stay in their places while figures change, until somebody asks for another order', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    let counts: Readonly<Record<string, number>> = { alice: 9, bob: 5, carol: 3 }
    await page.route('**/admin/v1/top*', (route) => route.fulfill({ json: topOf(counts) }))
    await page.getByRole('link', { name: 'Callers' }).click()
    const who = async (): Promise<string[]> =>
      (await texts(rejected(page))).map((text) => text.replace('header:x-k ', '').replace('api · per-key ', ''))
    await expect.poll(who).toEqual(['alice 9', 'bob 5', 'carol 3'])
    const place = await rejected(page).filter({ hasText: 'bob' }).boundingBox()
    counts = { bob: 50, carol: 13, alice: 9 }
    await expect.poll(who).toEqual(['alice 9', 'bob 50', 'carol 13'])
    counts = { dave: 70, bob: 60, alice: 10 }
    await expect.poll(who).toEqual(['alice 10', 'bob 60', 'carol not listed any more 13', 'dave 70'])
    expect(await rejected(page).filter({ hasText: 'bob' }).boundingBox()).toEqual(place)
    await page.getByRole('region', { name: 'Rejected most' }).getByRole('button', { name: 'Sort again' }).click()
    await expect.poll(who).toEqual(['dave 70', 'bob 60', 'alice 10'])
    await page.getByRole('region', { name: 'Rejected most' }).getByRole('button', { name: 'Caller' }).click()
    await expect.poll(who).toEqual(['alice 10', 'bob 60', 'dave 70'])
  })

  test('move nothing on the page while they are counted', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    // One overtakes the other.
    let count = 10
    await page.route('**/admin/v1/top*', (route) => {
      count += 5
      const [first, second] = count % 2 === 0 ? ['alice', 'bob'] : ['bob', 'alice']
      return route.fulfill({ json: topOf({ [first]: count, [second]: 7 }) })
    })
    for (const [view, panel] of [
      ['Callers', 'Rejected most'],
      ['Overview', 'Rejected now'],
    ] as const) {
      await page.getByRole('link', { name: view }).click()
      await page.getByRole('region', { name: panel }).getByRole('row').filter({ hasText: 'alice' }).hover()
      await page.evaluate(`window.moved = [], new PerformanceObserver((list) => window.moved.push(...list.getEntries().flatMap(({ sources }) =>
        sources.map(({ node, previousRect: from, currentRect: to }) => [node?.textContent.slice(0, 40), from.toJSON(), to.toJSON()])))).observe({ type: 'layout-shift' })`)
      for (let i = 0; i < 3; i++) await page.waitForResponse('**/admin/v1/top*')
      const own = `window.moved.filter(([text]) => /alice|bob|Rejected/.test(text))`
      expect([view, await page.evaluate(own)]).toEqual([view, []])
    }
  })

  test('get an override with everything filled in, and no address has their values', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await open(edge)
    const urls = urlsOf(page)
    await edge.decideTimes(2, tokenCaller('müller'))
    await page
      .getByRole('button', { name: /^Override… for [0-9a-f]{16}, müller$/ })
      .first()
      .click()
    await expect.poll(() => page.getByLabel('header:x-k').inputValue()).toBe('müller')
    await expect.poll(() => page.getByLabel('bearer').inputValue()).toMatch(/^[0-9a-f]{16}$/)
    await expect.poll(() => page.getByLabel('Policy').inputValue()).toBe('token')
    await page.getByLabel('No limit').check()
    await page.getByLabel('Reason').fill('a customer')
    await page.getByRole('button', { name: 'Preview…' }).click()
    await page.getByRole('button', { name: 'Set override' }).click()
    await page.getByRole('row', { name: 'no limit' }).getByText('müller').first().waitFor()
    // The list may have it a moment before the workers do.
    await expect.poll(() => edge.decideTimes(3, tokenCaller('müller'))).toEqual([200, 200, 200])
    expect(await edge.decideTimes(2, tokenCaller('meier'))).toEqual([200, 429])
    expect(urls.filter((url) => /m%C3%BCller|müller|[0-9a-f]{16}/.test(url))).toEqual([])
  })

  test('are looked up by hand, with an override that is in force', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    await new Operator(edge.adminPort).override({ policy: 'api', rule: 'per-key', values: { 'header:x-k': 'dave' }, multiply: 3 })
    const page = await open(edge)
    const lookup = page.getByRole('region', { name: 'Look up a counter' })
    await lookup.getByRole('button', { name: 'Look up' }).click()
    await lookup.getByText('Choose a policy.').waitFor()
    await lookup.getByLabel('Policy').fill('api')
    await lookup.getByLabel('header:x-k').fill('dave')
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog', { name: 'api · per-key' })
    await dialog.getByText('6 of 6 requests left').waitFor()
    await dialog.getByText('The limit is changed by').waitFor()
    await dialog.getByRole('button', { name: 'Override…' }).click()
    await expect.poll(() => page.getByLabel('header:x-k').inputValue()).toBe('dave')
  })

  test('say how exact they are', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    const top = {
      ...topOf({ [`${'long'.repeat(32)}…`]: 40 }),
      since: new Date(Date.now() - 50 * 3_600_000).toISOString(),
      max_error: 12,
      complete: false,
      hour: { since: new Date().toISOString(), max_error: 7, complete: true },
    }
    await page.route('**/admin/v1/top*', (route) => route.fulfill({ json: top }))
    await page.getByRole('link', { name: 'Callers' }).click()
    const panel = page.getByRole('region', { name: 'Rejected most' })
    // Not today, so it has its date, and always its zone.
    await panel.getByText(/^last minutes: since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/).waitFor()
    await panel.getByText('counts may be up to 12 too high').waitFor()
    await panel.getByText('counts may be too low: a worker died or did not answer').waitFor()
    await panel.getByText('those of the hour may be wrong by up to 7').waitFor()
    await panel.getByText('The value is cut: find it in full.').waitFor()
  })

  test('are not listed where EDGE_TOP is off, and can be looked up', async () => {
    const edge = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_TOP: 'off' } })
    const page = await open(edge)
    // Of this view: the overview begins with the same words. The filter is gone then.
    await page.getByText('A caller whose values you know can be found').waitFor()
    await page.getByLabel('Policy').fill('api')
    await page.getByLabel('header:x-k').fill('alice')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByText('2 of 2 requests left').waitFor()
  })

  test('of a policy that is not there are refused in words', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/callers?policy=gone`)
    await page.getByText(/no such policy|no policy/).waitFor()
  })

  test('with HTML in their values are shown as they are', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await open(edge)
    await edge.decideTimes(3, caller(MARKUP))
    await expect.poll(() => texts(rejected(page))).toEqual([`header:x-k ${MARKUP} api · per-key 1`])
    await rejected(page).getByRole('link', { name: MARKUP }).click()
    await page.getByRole('region', { name: 'Counters', exact: true }).getByText(MARKUP).first().waitFor()
    expect(await page.locator('main img, main b').count()).toBe(0)
  })

  test('fit a phone', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    await edge.decideTimes(3, caller('a-value-without-any-space-in-it'.repeat(3)))
    const page = await open(edge, { viewport: { width: 360, height: 740 } })
    await rejected(page).first().waitFor()
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360)
    const hidden = `[...document.querySelectorAll('main .table')].map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)`
    await expect.poll(() => page.evaluate(hidden)).toEqual([0, 0])
  })
})

async function open(edge: Edge, options: Parameters<typeof loggedIn>[1] = {}): Promise<Page> {
  const page = await loggedIn(edge.adminPort, options)
  await page.getByRole('link', { name: 'Callers' }).click()
  return page
}

function caller(key: string): { uri: string; fields: [string, string][] } {
  return { uri: '/api', fields: [['X-K', Buffer.from(key).toString('latin1')]] }
}

function tokenCaller(key: string): { uri: string; fields: [string, string][] } {
  return { uri: '/token', fields: [['Authorization', `Bearer ${SECRET}`], ...caller(key).fields] }
}

function rejected(page: Page): Locator {
  return page.getByRole('region', { name: 'Rejected most' }).locator('tbody tr')
}

function nearest(page: Page): Locator {
  return page.getByRole('region', { name: 'Nearest to their limit' }).locator('tbody tr')
}

/** Who each row is about, and its first number. */
async function texts(rows: Locator): Promise<string[]> {
  const cells = await rows.locator('th, th + td').allInnerTexts()
  const callers = cells.filter((_, i) => i % 2 === 0)
  return callers.map((text, i) => `${text} ${cells[2 * i + 1]}`.replace(/\s+/g, ' '))
}

/** What GET top returns where these callers were rejected so often. */
function topOf(counts: Readonly<Record<string, number>>): object {
  const since = new Date(Date.now() - 400_000).toISOString()
  const rows = Object.entries(counts).map(([key, count]) => ({
    policy: 'api',
    rule: 'per-key',
    mode: 'enforce',
    values: { 'header:x-k': key },
    count,
    hour_count: count,
    first_at: since,
    last_at: new Date(Date.now() - 100_000).toISOString(),
  }))
  return { since, max_error: 0, complete: true, hour: { since, max_error: 0, complete: true }, rejected: rows, nearest: [] }
}

/** All that the page asks for from now on, and where it is. */
function urlsOf(page: Page): string[] {
  const urls: string[] = []
  page.on('request', (request) => urls.push(request.url()))
  page.on('framenavigated', (frame) => urls.push(frame.url()))
  return urls
}
