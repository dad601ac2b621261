import type { BrowserContextOptions, Page } from 'playwright-core'
import { expect, test } from 'vitest'
import type { RecentEventsJson } from '../../src/admin/api/instance-types.ts'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { StubEvents } from '../support/console/stub-events.ts'
import { running } from '../support/service/running.ts'
import { until } from '../support/until.ts'

const BUNDLE = bundle(1, policy('search', { rules: [bucketRule('per-key', ['header:x-k'], 1, 0.001)] }))

describeInBrowser('the events', () => {
  test('begin with the last hour and go on with what happens, each once, the newest first', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    for (let i = 0; i < 2; i++) await edge.decide({ uri: '/', fields: [['x-k', 'alice']] })
    await until(async () => (await recentNames(edge.adminPort)).includes('reject'))
    await reset(edge.adminPort, 'before the page')
    await until(async () => (await recentNames(edge.adminPort)).includes('counter_reset'))
    const page = await eventsOf(edge.adminPort, { timezoneId: 'Asia/Kolkata' })
    await row(page, 'before the page').waitFor()
    await reset(edge.adminPort, 'after it')
    await row(page, 'after it').waitFor()
    await expect.poll(async () => (await kindsInRows(page)).toSorted()).toEqual((await recentNames(edge.adminPort)).toSorted())
    const kinds = await kindsInRows(page)
    expect(kinds.slice(0, 3)).toEqual(['counter_reset', 'admin_session_opened', 'counter_reset'])
    expect(kinds.slice(3).toSorted()).toEqual(expect.arrayContaining(['bundle_applied', 'reject', 'started']))
    expect(kinds.filter((kind) => kind === 'counter_reset')).toHaveLength(2)
    expect(await row(page, 'after it').locator('time').textContent()).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\+5:30$/)
    expect(await page.locator('main').textContent()).not.toContain('alice')
  })

  test('are readable, name policies and rules as links, and can be filtered', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await eventsOf(edge.adminPort)
    await page.getByText('Live').waitFor()
    for (let i = 0; i < 2; i++) await edge.decide({ uri: '/', fields: [['x-k', 'alice']] })
    await row(page, 'token_bucket_exceeded').waitFor()
    await reset(edge.adminPort, 'ticket 4711')
    const found = row(page, 'ticket 4711')
    await found.waitFor()
    expect(await found.locator('dl > div').allTextContents()).toEqual(['byada', 'reasonticket 4711'])
    expect(await page.locator('main').textContent()).not.toMatch(/\w=\w/)

    await page.getByRole('button', { name: 'reject 1', exact: true }).click()
    await expect.poll(() => kindsInRows(page)).toEqual(['reject'])
    expect(await row(page, 'token_bucket_exceeded').locator('dl').textContent()).toContain('counted byheader:x-k')
    await page.getByRole('button', { name: /^all / }).click()
    await page.getByLabel('Filter').fill('TICKET')
    await expect.poll(() => kindsInRows(page)).toEqual(['counter_reset'])
    await page.getByLabel('Filter').fill('no such text')
    await page.getByText('No event that is kept matches.').waitFor()
    await page.getByLabel('Filter').fill('')
    for (const name of ['per-key', 'search']) {
      await found.getByRole('link', { name }).click()
      await page.getByRole('region', { name: 'search' }).waitFor()
      await page.goBack()
    }
    await edge.publish(JSON.stringify({ bundle_version: 2, policies: Array.from({ length: 5 }, () => ({ id: 1 })) }))
    const refused = row(page, 'bundle_refused')
    expect(await refused.locator('li').first().textContent()).toMatch(/^policies\[0\].*\(line 1, column \d+\)$/)
    await refused.locator('summary').click()
    await refused.locator('li').last().waitFor()
  })

  test('about requests are counted in one row until something else happens', async () => {
    const { page, stub } = await stubbed()
    const time = new Date().toISOString()
    await stub.send(rejects(0, 3000))
    await stub.send([{ event: 'stopping', time, level: 'info', msg: 'in between' }])
    await stub.send([...rejects(3000, 3001), { ...rejects(0, 1)[0], event: 'would_reject', unlogged: 41 }, ...rejects(3002, 3004)])
    await row(page, '3 requests').waitFor()
    await expect.poll(() => kindsInRows(page)).toEqual(['would_reject', 'reject', 'stopping', 'reject'])
    await row(page, '42 requests').waitFor()
    const first = page.getByRole('row').last()
    expect(await first.locator('strong').textContent()).toBe('3,000 requests')
    expect(await first.locator('.run-places > li').first().textContent()).toBe('60 × policy-0 · per-key token_bucket_exceeded')
    await first.locator('summary').click()
    await first.getByText('and 1,800 requests at further places').waitFor()
    await first.getByRole('button', { name: 'Show each reject' }).click()
    await expect.poll(async () => (await kindsInRows(page)).length).toBe(200)
    await row(page, 'seen3,003').waitFor()
    await page.getByRole('button', { name: 'all 3,005' }).click()
    await page.getByLabel('Filter').fill('policy-2 ')
    await expect.poll(() => page.locator('main strong').allTextContents()).toEqual(['1 request', '60 requests'])
  })

  test('wait while they are paused', async () => {
    const { page, stub } = await stubbed()
    await stub.send([{ event: 'stopping', time: new Date().toISOString(), msg: 'the first' }, ...rejects(0, 1)])
    await row(page, 'The first').waitFor()
    await page.getByRole('button', { name: 'Pause' }).click()
    await stub.send([...rejects(1, 2), { event: 'stopping', time: new Date().toISOString(), msg: 'the second' }])
    await page.getByText('Paused, 2 newer events').waitFor()
    expect(await kindsInRows(page)).toEqual(['reject', 'stopping'])
    await row(page, '1 request').waitFor()
    await page.getByRole('button', { name: 'Resume' }).click()
    await row(page, 'The second').waitFor()
    await row(page, '2 requests').waitFor()
  })

  test('of a kind that is rare stay in sight among very many others', async () => {
    const { page, stub } = await stubbed()
    await stub.send([{ event: 'bundle_refused', time: new Date().toISOString(), msg: 'the rare one' }])
    await stub.send(rejects(0, 5000))
    await row(page, '5,000 requests').waitFor()
    await expect.poll(() => kindsInRows(page)).toEqual(['reject', 'bundle_refused'])
    await page.goto(`${new URL(page.url()).origin}/#/events?kind=bundle_refused`)
    await page.reload()
    await page.getByRole('button', { name: 'bundle_refused 0', pressed: true }).waitFor()
  })

  test('continue after a lost connection where they ended, with a row where some are missing', async () => {
    const { page, stub } = await stubbed()
    await stub.send(started(1))
    await row(page, 'Start 1').waitFor()
    const again = async (): Promise<void> => {
      stub.disconnect()
      await page.getByText('Not connected').waitFor()
      await stub.connected()
      await page.getByText('Live').waitFor()
    }
    await again()
    await stub.send(started(2))
    await row(page, 'Start 2').waitFor()
    expect(await kindsInRows(page)).toEqual(['started', 'started'])
    await again()
    stub.lose(3)
    await stub.send(started(3))
    await row(page, 'Start 3').waitFor()
    await row(page, 'This page was not connected').waitFor()
    expect(await kindsInRows(page)).toEqual(['started', '! not_connected', 'started', 'started'])
    expect(stub.continued).toEqual([undefined, '1', '2'])
  })

  test('are never more than the page can hold: 100,000 leave the heap and the document as they were', async () => {
    const { page, stub } = await stubbed()
    const size = async () => {
      const session = await page.context().newCDPSession(page)
      await session.send('HeapProfiler.collectGarbage')
      const { usedSize } = await session.send('Runtime.getHeapUsage')
      await session.detach()
      return { heap: usedSize, elements: await page.locator('*').count() }
    }
    const send = async (from: number, to: number): Promise<void> => {
      for (let i = from; i < to; i += 1000) await stub.send(rejects(i, i + 1000))
      await row(page, `seen${(to - 1).toLocaleString('en')}`).waitFor()
    }
    await page.goto(`${new URL(page.url()).origin}/#/events?kind=reject`)
    await page.reload()
    await stub.connected()
    await send(0, 2000)
    const before = await size()
    await send(2000, 100_000)
    await page.getByRole('button', { name: 'all 100,000' }).waitFor()
    const after = await size()
    expect(after.elements).toBe(before.elements)
    expect(after.heap).toBeLessThan(before.heap + 2_000_000)
    // It responds in the middle of a burst too.
    const burst = send(100_000, 120_000)
    await page.getByRole('link', { name: 'Policies' }).click()
    await page.getByRole('heading', { level: 1, name: 'Policies' }).waitFor()
    await page.getByRole('link', { name: 'Events' }).click()
    await page.getByRole('button', { name: /^reject / }).click()
    await burst
    // And all of them are one row among the others.
    await page.getByRole('button', { name: /^all / }).click()
    await row(page, '120,000 requests').waitFor()
    await expect.poll(() => kindsInRows(page)).toEqual(['reject'])
  })
})

function rejects(from: number, to: number): Readonly<Record<string, unknown>>[] {
  const time = new Date().toISOString()
  return Array.from({ length: to - from }, (_, i) => {
    const policy = `policy-${(from + i) % 50}`
    return {
      level: 'info',
      time,
      event: 'reject',
      policy,
      rule: 'per-key',
      seen: from + i,
      reason: 'token_bucket_exceeded',
      msg: 'rejected',
    }
  })
}

async function stubbed(): Promise<{ page: Page; stub: StubEvents }> {
  const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
  const stub = await StubEvents.start(edge.adminPort)
  const page = await eventsOf(stub.port)
  await stub.connected()
  return { page, stub }
}

function started(start: number): Readonly<Record<string, unknown>>[] {
  return [{ event: 'started', time: new Date().toISOString(), level: 'info', msg: `start ${start}` }]
}

async function reset(port: number, reason: string): Promise<void> {
  const body = { policy: 'search', rule: 'per-key', values: { 'header:x-k': 'alice' }, reason }
  expect((await askAdmin(port, 'POST', 'counters/reset', { body, actor: 'ada' })).status).toBe(200)
}

/** The names of the events that the service keeps. */
async function recentNames(port: number): Promise<readonly string[]> {
  const { json } = await askAdmin(port, 'GET', 'events/recent')
  return (json as RecentEventsJson).events.map(({ event }) => event)
}

async function eventsOf(port: number, options: BrowserContextOptions = {}): Promise<Page> {
  const page = await loggedIn(port, options)
  await page.getByRole('link', { name: 'Events' }).click()
  return page
}

function row(page: Page, text: string) {
  return page.getByRole('row').filter({ hasText: text }).first()
}

function kindsInRows(page: Page): Promise<readonly string[]> {
  return page.getByRole('rowheader').locator('.badge').allTextContents()
}
