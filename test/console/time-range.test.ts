import type { BrowserContextOptions, Page } from 'playwright-core'
import { beforeAll, expect, test } from 'vitest'
import { ADMIN_ENV } from '../support/admin/admin-client.ts'
import { activity, sampled } from '../support/admin/sampled.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import type { Edge } from '../support/service/edge.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { type Owner, running } from '../support/service/running.ts'
import { thisSuite } from '../support/service/suite-owner.ts'

const HARDLY_ANY = 0.0001
const BUNDLE = bundle(7, policy('search', { selector: { pathPrefix: '/search' }, rules: [bucketRule('r', [], 1, HARDLY_ANY)] }))
const BERLIN = { timezoneId: 'Europe/Berlin' }
const PHONE = { ...BERLIN, viewport: { width: 360, height: 700 } }

/** A service that has run for more than a day, rejected 20 requests 40 minutes ago, and none since. */
async function dayOldService(owner: Owner) {
  const clock = new ManualClock()
  const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV, clock }, owner)
  const look = async (ms: number): Promise<void> => {
    clock.advance(ms)
    await activity(edge.adminPort, '?since=2030-01-01T00:00:00Z')
  }
  for (let i = 0; i < 360; i++) await look(240_000)
  await edge.decideTimes(21, { uri: '/search' })
  for (let i = 0; i < 40; i++) await look(60_000)
  return edge
}

/** Logs in, and keeps the texts that charts draw: they are on canvases, where nothing else can read them. */
async function watched(port: number, options: BrowserContextOptions): Promise<{ page: Page; drawn: () => Promise<readonly string[]> }> {
  const page = await loggedIn(port, options)
  await page.addInitScript(`
    window.drawn = new Set()
    const { fillText } = CanvasRenderingContext2D.prototype
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
      window.drawn.add(text)
      return fillText.call(this, text, ...rest)
    }`)
  await page.reload()
  await page.getByRole('table', { name: 'Decisions per second', exact: true }).waitFor()
  return { page, drawn: () => page.evaluate('[...window.drawn]') }
}

describeInBrowser('the time range of charts', () => {
  const owner = thisSuite()
  let old: Edge
  beforeAll(async () => {
    old = await dayOldService(owner)
  })

  test('is 15 minutes, and up to 24 hours on demand, with date and zone', async () => {
    const page = await loggedIn(old.adminPort, BERLIN)
    await page.getByText(/^13:25:\d\d to 13:40:00, UTC\+1/).waitFor()
    await page.getByText('Nothing was rejected in the last 15 minutes.').waitFor()
    await page.getByLabel('1 h', { exact: true }).check()
    const rejects = page.getByRole('table', { name: 'Rejects per second by policy' })
    await expect.poll(() => rejects.getByRole('row', { name: 'search' }).getByRole('cell').allTextContents()).toEqual(['0', '0.333'])
    await page.getByLabel('24 h', { exact: true }).check()
    await page.getByText('15 Jan, 13:40:00 to 16 Jan, 13:40:00, UTC+1', { exact: true }).waitFor()
    // 20 rejects in a sample of four minutes.
    await expect.poll(() => rejects.getByRole('row', { name: 'search' }).getByRole('cell').allTextContents()).toEqual(['0', '0.0833'])
    const chart = page.getByRole('img', { name: /^Decisions per second, 15 Jan, 13:40:00 to 16 Jan, 13:40:00 UTC\+1/ })
    await expect
      .poll(async () => {
        // Only a cursor that moves is noticed, and lines that are drawn anew wait for the next move.
        for (const x of [300, 301]) await chart.hover({ position: { x, y: 50 } })
        return rejects.getByRole('columnheader').nth(1).textContent()
      })
      .toMatch(/^1[56] Jan, \d\d:\d\d:\d\d$/)
  })

  test('is kept over a reload, and the keyboard can go on from the range that it chose', async () => {
    const page = await loggedIn(old.adminPort)
    await page.getByLabel('24 h', { exact: true }).check()
    await page.reload()
    const last = page.getByRole('group', { name: 'Time range of the charts' }).getByRole('radio').last()
    await expect.poll(() => last.isChecked()).toBe(true)
    await last.focus()
    for (const label of ['6 h', '1 h', '15 min', '24 h']) {
      await page.keyboard.press('ArrowLeft')
      await expect.poll(() => page.getByLabel(label, { exact: true }).isChecked()).toBe(true)
      await expect.poll(() => page.evaluate('document.activeElement.parentElement.textContent')).toBe(label)
    }
  })

  test('says so where a range has no sample yet', async () => {
    const { edge, sample } = await sampled({ bundle: BUNDLE })
    await sample()
    const page = await loggedIn(edge.adminPort)
    await page.getByLabel('24 h', { exact: true }).check()
    await page.getByText('Nothing was rejected in the last 24 hours.').waitFor()
    await page.getByText('There is no sample of this range yet.').first().waitFor()
  })

  test('begins with the first sample of a new instance, and says so', async () => {
    const { edge, sample } = await sampled({ bundle: BUNDLE })
    for (let i = 0; i < 5; i++) await sample()
    const page = await loggedIn(edge.adminPort, BERLIN)
    await page.getByText('12:58:17 to 13:00:10, UTC+1; nothing is known before 13:00:00').waitFor()
    await page.getByLabel('1 h', { exact: true }).check()
    await page.getByText('12:52:40 to 13:00:10, UTC+1; nothing is known before 13:00:00').waitFor()
  })

  test.each([
    ['15 min', ['13:30', '13:35', '13:40']],
    ['1 h', ['12:45', '13:00', '13:15', '13:30']],
    ['6 h', ['08:00', '10:00', '12:00']],
    ['24 h', ['18:00', '16 Jan', '06:00', '12:00']],
  ])('has useful ticks on a phone: %s', async (label, ticks) => {
    const { page, drawn } = await watched(old.adminPort, PHONE)
    await page.getByLabel(label, { exact: true }).check()
    await expect.poll(drawn).toEqual(expect.arrayContaining(ticks))
  })

  test('cuts off a spike, with a mark and its value, and shows all of it on demand', async () => {
    const { edge, sample } = await sampled({ bundle: BUNDLE })
    for (let i = 0; i < 30; i++) {
      await edge.decideTimes(i === 20 ? 90 : 2, { uri: '/search' })
      await sample()
    }
    const { page, drawn } = await watched(edge.adminPort, BERLIN)
    const panel = page.getByRole('region', { name: 'Decisions', exact: true })
    await panel.getByText('Peaks cut off, up to 45 decisions per second (rejected, 13:00:42)').waitFor()
    await expect.poll(() => panel.getByRole('row', { name: 'rejected' }).getByRole('cell').last().textContent()).toBe('45')
    await expect.poll(drawn).toContain('2')
    expect((await drawn()).filter((text) => Number(text) > 2)).toEqual([])
    await panel.getByRole('button', { name: 'Full scale' }).click()
    await expect.poll(drawn).toContain('40')
    await panel.getByRole('button', { name: 'Cut off peaks' }).waitFor()
  })
})
