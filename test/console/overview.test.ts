import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { KeySetServer } from '../support/callers/followed-key-sets.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { fakeLlm, proxyEnv } from '../support/llm/llm-proxy.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { sharing } from '../support/redis/sharing-edge.ts'
import { ask } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running } from '../support/service/running.ts'
import { untilLogged } from '../support/service/until-logged.ts'

/** So few tokens a second that none comes back while a test runs. */
const HARDLY_ANY = 0.0001
/** Of the clock, until the next sample of what happened is due. */
const SAMPLE_MS = 2000
const alice = [['X-K', 'alice']] as const
const BUNDLE = bundle(
  7,
  policy('search', { selector: { pathPrefix: '/search' }, rules: [bucketRule('r', ['header:x-k'], 4, HARDLY_ANY)] }),
  policy('export', { selector: { pathPrefix: '/export' }, rules: [bucketRule('r', ['header:x-k'], 2, HARDLY_ANY)] }),
  policy('trial', { selector: { pathPrefix: '/trial' }, mode: 'shadow', rules: [bucketRule('r', ['header:x-k'], 1, HARDLY_ANY)] }),
)

/** The highest number that a chart's table has for a line; undefined where the line is not there. */
async function highest(page: Page, chart: string, line: string): Promise<number | undefined> {
  const row = page.getByRole('table', { name: chart, exact: true }).getByRole('row', { name: line })
  return (await row.count()) === 0 ? undefined : Number(await row.getByRole('cell').nth(1).textContent())
}

describeInBrowser('the overview', () => {
  test('shows decisions and rejects as they happen, by action, policy and reason', async () => {
    // What is asserted of the last minute holds however long this takes.
    const clock = new ManualClock()
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV, clock })
    const page = await loggedIn(edge.adminPort)
    clock.advance(SAMPLE_MS)
    await expect.poll(() => highest(page, 'Decisions per second', 'rejected')).toBe(0)
    await page.getByText('Nothing was rejected in the last 15 minutes.').waitFor()
    await edge.decideTimes(20, { uri: '/search', fields: alice })
    await edge.decideTimes(3, { uri: '/export', fields: alice })
    await edge.decideTimes(6, { uri: '/trial', fields: alice })
    await edge.post('/v1/decision')
    clock.advance(SAMPLE_MS)
    for (const line of ['allowed', 'rejected', 'would reject', 'refused'])
      await expect.poll(() => highest(page, 'Decisions per second', line)).toBeGreaterThan(0)
    await expect.poll(() => highest(page, 'Rejects per second by policy', 'search')).toBeGreaterThan(0)
    await expect.poll(() => highest(page, 'Rejects per second by policy', 'export')).toBeGreaterThan(0)
    const choice = page.getByLabel('What the chart shows')
    await choice.selectOption('Rejects by reason')
    await expect.poll(() => highest(page, 'Rejects per second by reason', 'token_bucket_exceeded')).toBeGreaterThan(0)
    await choice.selectOption('Requests by policy')
    await expect.poll(() => highest(page, 'Requests per second by policy', 'search')).toBeGreaterThan(0)
    await choice.selectOption('Would-rejects by policy')
    await expect.poll(() => highest(page, 'Would-rejects per second by policy', 'trial')).toBeGreaterThan(0)
    await choice.selectOption('Refusals by reason')
    await expect.poll(() => highest(page, 'Refusals per second by reason', 'missing_original_method')).toBeGreaterThan(0)
    await page.getByRole('table', { name: 'Decision time' }).getByRole('row', { name: '99th percentile' }).waitFor()
    const policies = page.getByRole('table', { name: /^Policies, the busiest first/ })
    await expect.poll(() => policies.getByRole('rowheader').allTextContents()).toEqual(['search', 'trial', 'export'])
    const cells = policies.getByRole('row', { name: /^search/ }).getByRole('cell')
    await expect.poll(() => cells.allTextContents()).toEqual(['enforce', '4', '16', '80%', '0'])
    const memory = page.getByRole('table', { name: 'Memory' }).getByRole('cell').first()
    await expect.poll(() => memory.textContent()).toMatch(/^\d+ MiB$/)
    await policies.getByRole('link', { name: 'search' }).click()
    await expect.poll(() => page.url()).toMatch(/#\/policies\?policy=search$/)
  })

  test('shows the key set of each issuer, with its age, or why and since when it cannot be read', async () => {
    const [good, away] = [await KeySetServer.start('a', 'b'), await KeySetServer.start()]
    away.fail(503)
    const jwt = [good, away].map(({ url }, i) => ({ name: `issuer-${i}`, issuer: `https://${i}.test`, audiences: ['api'], jwks_url: url }))
    const env = { ...ADMIN_ENV, EDGE_BACKEND_HOSTS: [good, away].map(({ url }) => new URL(url).host).join() }
    const edge = await running({ bundle: { ...BUNDLE, callers: { jwt } }, env })
    await untilLogged(edge, 'key_set_failed')
    const page = await loggedIn(edge.adminPort)
    const table = page.getByRole('table', { name: 'Key sets that verify tokens, by issuer' })
    const row = (issuer: string): Promise<string[]> => table.getByRole('row', { name: issuer }).getByRole('cell').allTextContents()
    await table.waitFor()
    expect(await row('issuer-0')).toEqual(['2', expect.stringMatching(/^now$| ago$/), 'none'])
    expect(await row('issuer-1')).toEqual(['0', 'never', expect.stringMatching(/^it returned 503, since .+/)])
    await page.getByText('1 failing').waitFor()
    expect(await table.textContent()).toContain(good.url)
    away.publish('c')
    await edge.service.reload()
    await page.getByText('all read').waitFor()
  })

  test('draws lines that differ by more than colour, in the colours of the theme', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    await edge.decideTimes(9, { uri: '/search', fields: alice })
    const page = await loggedIn(edge.adminPort, { colorScheme: 'light' })
    await expect.poll(() => highest(page, 'Decisions per second', 'rejected')).toBeGreaterThan(0)
    const plot = page.getByRole('img', { name: /^Decisions per second, \d\d:\d\d:\d\d to/ })
    const dashes = await page.getByRole('table', { name: 'Decisions per second' }).locator('line').evaluateAll(dashesOf)
    expect(new Set(dashes).size).toBe(4)
    // Of the line of allowed requests.
    const hasColour = (colour: string): Promise<boolean> => plot.locator('canvas').evaluate(drawsColour, colour)
    await expect.poll(() => hasColour('31,95,191')).toBe(true)
    await page.emulateMedia({ colorScheme: 'dark' })
    await expect.poll(() => hasColour('127,176,255')).toBe(true)
    expect(await hasColour('31,95,191')).toBe(false)
    const wide = (await plot.locator('canvas').boundingBox())!.width
    await page.setViewportSize({ width: 360, height: 700 })
    await expect.poll(async () => (await plot.locator('canvas').boundingBox())!.width).toBeLessThan(Math.min(wide, 360))
  })

  test('shows the moment under the cursor, in all charts', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    await edge.decideTimes(9, { uri: '/search', fields: alice })
    const page = await loggedIn(edge.adminPort)
    await page.getByRole('table', { name: 'Decision time' }).getByText('99th percentile').waitFor()
    const chart = page.getByRole('img', { name: /^Decisions per second,/ })
    for (const name of ['Decisions per second', 'Decision time'])
      await expect
        .poll(async () => {
          // Only a cursor that moves is noticed, and lines that are drawn anew wait for the next move.
          for (const x of [300, 301]) await chart.hover({ position: { x, y: 50 } })
          return page.getByRole('table', { name, exact: true }).getByRole('columnheader').nth(1).textContent()
        })
        .toMatch(/^\d\d:\d\d:\d\d$/)
    await page.mouse.move(0, 0)
    await page.getByRole('table', { name: 'Decision time' }).getByRole('columnheader', { name: 'now' }).waitFor()
  })

  test('names the policies without traffic, and says so where there is no bundle', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    const policies = page.getByRole('table', { name: /^Policies, the busiest first/ })
    await expect.poll(() => policies.getByRole('rowheader').allTextContents()).toEqual(['search', 'export', 'trial'])
    const none = await loggedIn((await running({ env: ADMIN_ENV })).adminPort)
    await none.getByText('No bundle is active: every request gets 503').waitFor()
    await none.getByText('There are no policies').waitFor()
  })

  test('says who is rejected now, by what and since when', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    const panel = page.getByRole('region', { name: 'Rejected now' })
    await panel.getByText('Nobody is rejected.').waitFor()
    await page.getByRole('banner').getByText('No problems').waitFor()
    await edge.decideTimes(6, { uri: '/search', fields: alice })
    await edge.decideTimes(5, { uri: '/export', fields: [['X-K', 'bob']] })
    await edge.decideTimes(5, { uri: '/trial', fields: [['X-K', 'carol']] })
    await expect.poll(() => panel.getByRole('rowheader').allTextContents()).toEqual(['header:x-k bob', 'header:x-k alice'])
    await expect
      .poll(() => panel.getByRole('row', { name: 'bob' }).getByRole('cell').allInnerTexts())
      .toEqual(['export · r', '3', expect.stringMatching(/^\d\d:\d\d:\d\d UTC/), expect.stringMatching(/ago|now/)])
    // Rejects are no problem of the instance.
    await page.getByRole('banner').getByText('No problems').waitFor()
    expect(await page.locator('body').innerText()).not.toMatch(/healthy/i)
    await panel.getByRole('link', { name: 'bob' }).click()
    await page.getByRole('region', { name: 'Rejected in the last hour' }).getByRole('link', { name: 'bob' }).waitFor()
    const off = await loggedIn((await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_TOP: 'off' } })).adminPort)
    await off.getByRole('region', { name: 'Rejected now' }).getByText('Callers are not counted here').waitFor()
  })

  test('lists what is wrong, and says that nothing is enforced', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    await edge.publish('nonsense')
    const body = { shadow_all: true, until: '2h', reason: 'incident <b>12</b>' }
    await askAdmin(edge.adminPort, 'POST', 'overrides', { body, actor: 'ada' })
    const page = await loggedIn(edge.adminPort)
    await page.getByRole('heading', { name: '1 problem' }).waitFor()
    const problem = page.getByRole('region', { name: '1 problem' }).getByRole('listitem')
    expect(await problem.textContent()).toMatch(/bundle_refused.*since/)
    await page.getByText(/^Nothing is enforced for another .* ada: incident <b>12<\/b>/).waitFor()
  })

  test('shows workers, the store, and in reverse_proxy the backend', async () => {
    const fake = await fakeLlm()
    const clock = new ManualClock()
    const edge = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, ...proxyEnv(fake) }, clock })
    const page = await loggedIn(edge.adminPort)
    const workers = page.getByRole('table', { name: 'Workers' })
    await expect.poll(() => workers.getByRole('rowheader').allTextContents()).toEqual(['1'])
    await page.getByRole('region', { name: 'Store' }).getByText('in memory').waitFor()
    await ask(edge.port, 'GET', '/search', [])
    clock.advance(SAMPLE_MS)
    await page.getByRole('table', { name: 'Backend response time' }).getByRole('row', { name: 'median' }).waitFor()
    await fake.close()
    await ask(edge.port, 'GET', '/search', [])
    clock.advance(SAMPLE_MS)
    const failures = page.getByRole('definition').filter({ has: page.locator('.value') })
    await expect.poll(() => failures.last().textContent()).toMatch(/^0\.\d+ \/s$/)
  })

  test('shows how Redis is', async () => {
    const redis = await runningRedis()
    const edge = await sharing(redis.url, { bundle: BUNDLE, env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    const panel = page.getByRole('region', { name: 'Redis', exact: true })
    await panel.getByText('connected').waitFor()
    // Three panels are side by side at this width, and nothing of the workers is cut off.
    await expect.poll(() => page.getByRole('group', { name: 'Workers and how busy they are' }).getAttribute('class')).toBe('table')
    await edge.decideTimes(5, { uri: '/search', fields: alice })
    await page.getByRole('table', { name: 'Redis round trip' }).getByRole('row', { name: 'median' }).waitFor()
    await redis.close()
    await expect
      .poll(async () => {
        await edge.decide({ uri: '/search', fields: alice })
        return panel.textContent()
      })
      .toMatch(/unreachable/)
  })

  test('stays quick with 10,000 policies: some are named, and all are a click away', async () => {
    const policies = Array.from({ length: 10_000 }, (_, i) =>
      policy(`p${i}`, { selector: { pathPrefix: `/${i}` }, rules: [bucketRule('r', [], 1, HARDLY_ANY)] }),
    )
    const edge = await running({ bundle: bundle(1, ...policies), env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    const table = page.getByRole('table', { name: /^Policies, the busiest first/ })
    await expect.poll(() => table.getByRole('rowheader').count()).toBe(20)
    await page.getByText('20 of 10,000').waitFor()
    await edge.decideTimes(3, { uri: '/9999' })
    await expect.poll(async () => (await table.getByRole('rowheader').allTextContents())[0]).toBe('p9999')
    expect(await page.evaluate('document.querySelectorAll("*").length')).toBeLessThan(1000)
    await page.getByRole('link', { name: 'all policies' }).click()
    await expect.poll(() => page.getByRole('heading', { level: 1 }).textContent()).toBe('Policies')
  })
})

function dashesOf(lines: readonly { getAttribute(name: string): string | null }[]): (string | null)[] {
  return lines.map((line) => line.getAttribute('stroke-dasharray'))
}

/** Run in the page, where the canvas is. */
function drawsColour(canvas: unknown, colour: string): boolean {
  const { width, height, getContext } = canvas as { width: number; height: number; getContext: (kind: '2d') => Drawing }
  const { data } = getContext.call(canvas, '2d').getImageData(0, 0, width, height)
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255 && `${data[i]},${data[i + 1]},${data[i + 2]}` === colour) return true
  return false
}

interface Drawing {
  getImageData(x: number, y: number, width: number, height: number): { readonly data: Uint8ClampedArray }
}
