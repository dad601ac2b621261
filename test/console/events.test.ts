import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { StubEvents } from '../support/console/stub-events.ts'
import { running } from '../support/service/running.ts'

const BUNDLE = bundle(1, policy('search', { rules: [bucketRule('per-key', ['header:x-k'], 1, 0.001)] }))

describeInBrowser('the events', () => {
  test('are those of the service, the newest first, with filters', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const page = await eventsOf(edge.adminPort)
    await page.getByText('Live').waitFor()
    for (let i = 0; i < 2; i++) await edge.decide({ uri: '/', fields: [['x-k', 'alice']] })
    await row(page, 'token_bucket_exceeded').waitFor()
    const values = { 'header:x-k': 'alice' }
    await askAdmin(edge.adminPort, 'POST', 'counters/reset', {
      body: { policy: 'search', rule: 'per-key', values, reason: 'ticket 4711' },
      actor: 'ada',
    })
    await row(page, 'ticket 4711').waitFor()
    expect(await kindsInRows(page)).toEqual(['counter_reset', 'reject'])
    expect(await row(page, 'ticket 4711').textContent()).toContain('actor=ada')
    expect(await page.locator('main').textContent()).not.toContain('alice')

    await page.getByRole('button', { name: 'reject 1' }).click()
    await expect.poll(() => kindsInRows(page)).toEqual(['reject'])
    await page.getByRole('button', { name: 'all 2' }).click()
    await page.getByLabel('Filter').fill('TICKET')
    await expect.poll(() => kindsInRows(page)).toEqual(['counter_reset'])
    await page.getByLabel('Filter').fill('no such text')
    await page.getByText('None of the events that are kept match.').waitFor()
  })

  test('wait while they are paused', async () => {
    const { page, stub } = await stubbed()
    await stub.send([{ event: 'stopping', time: new Date().toISOString(), msg: 'the first' }])
    await row(page, 'the first').waitFor()
    await page.getByRole('button', { name: 'Pause' }).click()
    await stub.send([{ event: 'stopping', time: new Date().toISOString(), msg: 'the second' }])
    await page.getByText('Paused, 1 newer event').waitFor()
    expect(await kindsInRows(page)).toHaveLength(1)
    await page.getByRole('button', { name: 'Resume' }).click()
    await row(page, 'the second').waitFor()
  })

  test('of a kind that is rare stay in sight among very many others', async () => {
    const { page, stub } = await stubbed()
    await stub.send([{ event: 'bundle_refused', time: new Date().toISOString(), msg: 'the rare one' }])
    await stub.send(rejects(0, 5000))
    await page.getByRole('button', { name: 'bundle_refused 1' }).click()
    await row(page, 'the rare one').waitFor()
  })

  test('come again after a lost connection, with a row where some are missing', async () => {
    const { page, stub } = await stubbed()
    await stub.send(rejects(0, 1))
    await row(page, 'seen=0').waitFor()
    stub.disconnect()
    await page.getByText('Not connected').waitFor()
    await stub.connected()
    await row(page, 'this page was not connected').waitFor()
    await stub.send(rejects(1, 2))
    await row(page, 'seen=1').waitFor()
    expect(await kindsInRows(page)).toEqual(['reject', '! not_connected', 'reject'])
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
      await row(page, `seen=${to - 1} `).waitFor()
    }
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
    await burst
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

async function eventsOf(port: number): Promise<Page> {
  const page = await loggedIn(port)
  await page.getByRole('link', { name: 'Events' }).click()
  return page
}

function row(page: Page, text: string) {
  return page.getByRole('row').filter({ hasText: text }).first()
}

function kindsInRows(page: Page): Promise<readonly string[]> {
  return page.getByRole('rowheader').locator('.badge').allTextContents()
}
