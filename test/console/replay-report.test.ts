import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { readText } from '../docs/markdown.ts'
import { describeInBrowser, newPage } from '../support/console/browser.ts'
import { LOG_WRITERS, type Logged } from '../support/replay/log-writers.ts'
import { replaying } from '../support/replay/replaying.ts'

const START = Date.parse('2026-01-01T00:00:00Z')
const HOSTILE = '"><img src=x onerror=alert(1)></title></style><script>document.title="owned"</script><svg onload=alert(1)>\'&amp;'

function bundle(id: string, rule: string, burst: number, mode = 'enforce'): object[] {
  const config = { tokens_per_second: 1, burst }
  const own = { name: rule, match: { 'header:x-k': '*' }, limit_keys: ['header:x-k'] }
  const everybody = { name: 'rest', match: 'else', algorithm: 'unlimited' }
  return [{ id, spec: { mode, rules: [{ ...own, algorithm: 'token_bucket', algorithm_config: config }, everybody] } }]
}

const LOG = LOG_WRITERS.json(
  Array.from({ length: 1000 }, (_, i): Logged => {
    const second = Math.floor(i / 10)
    return { timeMs: START + second * 1000, uri: '/', headers: { 'x-k': second % 3 === 0 ? HOSTILE : `caller-${i % 4}` } }
  }),
)

async function openReport(files: Record<string, object[]>, log = LOG, options: BrowserContextOptions = {}): Promise<Page> {
  const bundles = Object.keys(files).flatMap((name) => ['--bundle', name])
  const { status, directory, stderr } = await replaying({ ...files, log }, [...bundles, '--html', 'report.html', 'log'])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  const page = await newPage(options)
  await page.goto(pathToFileURL(join(directory, 'report.html')).href)
  return page
}

interface AxeResult {
  readonly violations: readonly { readonly id: string; readonly nodes: readonly { readonly html: string }[] }[]
}

describeInBrowser('the HTML report of edge replay', () => {
  test('shows requests and rejects over time, by rule, by caller, and what differs', async () => {
    const page = await openReport(
      { 'a.json': bundle('api', 'per-key', 5), 'b.json': bundle('api', 'per-key', 3) },
      LOG.replaceAll(HOSTILE, 'x'),
    )
    const headings = (await page.getByRole('heading').allTextContents()).join('\n')
    for (const heading of ['Requests per 1 s', 'Rejects per 1 s', 'The difference', 'a.json: rules that reject', 'b.json: callers']) {
      expect(headings).toContain(heading)
    }
    expect(await page.getByRole('img').count()).toBe(2)
    // Each interval says its numbers.
    expect(await page.locator('svg title').first().textContent()).toContain('2026-01-01T00:00:00Z\nRequests: 10')
    const rows = page.getByRole('group', { name: 'Callers with a difference, largest first' }).getByRole('row')
    expect(await rows.count()).toBeGreaterThan(1)
    const dashes = `[...document.querySelectorAll('path.a, path.b')].map((path) => getComputedStyle(path).strokeDasharray)`
    expect(await page.evaluate(dashes)).toEqual(['none', '6px, 3px'])
  })

  test('has its times in full, whatever their format, and none upon another', async () => {
    const formats = new Set<number>()
    for (const span of [1, 8, 40, 75, 480, 3600, 86_400, 90_000, 500_000]) {
      const log = LOG_WRITERS.json([0, span * 1000].map((ms): Logged => ({ timeMs: START + ms, uri: '/', headers: { 'x-k': 'a' } })))
      const page = await openReport({ 'a.json': bundle('api', 'per-key', 5) }, log)
      const boxes = (await page.evaluate(`[...document.querySelector('.chart').querySelectorAll('text.time')].map((label) => {
        const { x, width } = label.getBBox()
        return [x, x + width, label.textContent.length]
      })`)) as [number, number, number][]
      expect(boxes.length, `${span} s`).toBeGreaterThan(1)
      for (const [i, [left, right, characters]] of boxes.entries()) {
        formats.add(characters)
        expect(left, `${span} s`).toBeGreaterThanOrEqual(i === 0 ? 0 : boxes[i - 1]![1])
        expect(right, `${span} s`).toBeLessThanOrEqual(960)
      }
      await page.close()
    }
    expect(formats).toEqual(new Set([5, 8, 10, 11]))
  })

  test('shows hostile values, names and reasons as the texts they are', async () => {
    const page = await openReport({
      'a.json': bundle('<b>p</b>', '<i onclick=alert(1)>r', 2),
      'b.json': bundle('<b>p</b>', 'r', 1, 'shadow'),
    })
    await page.waitForLoadState('load')
    expect(await page.title()).toMatch(/^Replay of /)
    expect(await page.locator('script, img[src], b, i').count()).toBe(0)
    expect(await page.locator('td.caller').allTextContents()).toContain(`header:x-k=${HOSTILE}`)
    expect(await page.getByRole('rowheader', { name: '<b>p</b>' }).count()).toBeGreaterThan(0)
    expect(await page.evaluate(`getComputedStyle(document.querySelector('table')).borderCollapse`)).toBe('collapse')
  })

  test('has all columns in view and in print however long names are, and is printed dark on light', async () => {
    const name = 'a-policy-with-a-very-long-name-'.repeat(3)
    const files = { 'a.json': bundle(name, name, 5), 'b.json': bundle(name, name, 3) }
    const page = await openReport(files, LOG, { viewport: { width: 1280, height: 800 }, colorScheme: 'dark' })
    const cutOff = `[...document.querySelectorAll('.wide, .chart')].filter((part) => part.scrollWidth > part.clientWidth).length`
    expect(await page.evaluate(cutOff)).toBe(0)
    await page.setViewportSize({ width: 720, height: 1000 })
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' })
    expect(await page.evaluate(cutOff)).toBe(0)
    expect(await page.evaluate('getComputedStyle(document.body).color')).toBe('rgb(28, 36, 48)')
  })

  test('has nothing that axe finds fault with, light, dark and on a phone', async () => {
    const axe = readText('node_modules/axe-core/axe.min.js')
    const log = `nonsense\n${LOG}`
    for (const options of [{}, { colorScheme: 'dark' }, { viewport: { width: 360, height: 800 } }] as const) {
      const page = await openReport({ 'a.json': bundle('api', 'per-key', 5) }, log, options)
      // The page runs no script of its own; what the browser's debugger evaluates is not bound by its policy.
      await page.evaluate(axe)
      const { violations } = await page.evaluate<AxeResult>('axe.run()')
      const findings = violations.map(({ id, nodes }) => [id, nodes[0]!.html])
      expect(findings).toEqual([])
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
    }
  })
})
