import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { findings } from '../support/console/axe.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { busyService } from '../support/console/busy-service.ts'
import type { Edge } from '../support/service/edge.ts'
import { until } from '../support/until.ts'

const SIZES: readonly (readonly [width: number, height: number])[] = [
  [1280, 800],
  [768, 1024],
  [375, 750],
  [1920, 1080],
]
/** Each address, and what is there when it shows everything. */
const ADDRESSES: readonly (readonly [string, string])[] = [
  ['events', 'Show each'],
  ['events?kind=bundle_refused', 'Active version'],
  ['changes', 'they were right'],
  ['bundle', 'What changed from version 3 to 4'],
  ['bundle?version=3', 'The command needs EDGE_ADMIN_URL'],
  ['bundle?version=3&show=lines-to-active', 'Lines that differ from version 3 to 4'],
  ['bundle?version=3&show=text', 'Text of version 3'],
]

describeInBrowser('events, changes and bundles', () => {
  test.each(SIZES)('fit %i × %i, light and dark, and axe-core has no objections', async (width, height) => {
    const edge = await eventfulService()
    const page = await loggedIn(edge.adminPort, { viewport: { width, height } })
    for (const [path, text] of ADDRESSES) {
      await show(page, edge, path, text)
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        const seen = [path, await findings(page), await page.evaluate('document.documentElement.scrollWidth'), await sideways(page)]
        expect(seen).toEqual([path, [], width, []])
      }
    }
  })

  test.each(SIZES)('do not move by themselves at %i × %i', async (width, height) => {
    const edge = await eventfulService()
    const page = await loggedIn(edge.adminPort, { viewport: { width, height } })
    for (const [path, text] of ADDRESSES.filter(([path]) => !path.includes('?'))) {
      await show(page, edge, path, text)
      await page.evaluate(`window.moved = []
        new PerformanceObserver((list) => {
          for (const { sources } of list.getEntries())
            for (const { node } of sources) if (node?.parentElement?.closest('main')) window.moved.push(node.textContent)
        }).observe({ type: 'layout-shift' })`)
      for (let i = 0; i < 3; i++) await page.waitForResponse('**/admin/v1/status')
      expect([path, await page.evaluate('window.moved')]).toEqual([path, []])
    }
  })

  test('work by keyboard alone', async () => {
    const edge = await eventfulService()
    const page = await loggedIn(edge.adminPort)
    await show(page, edge, 'events', 'Show each')
    await tabTo(page, /^reject \d+$/)
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: /^reject \d+$/, pressed: true }).waitFor()
    await tabTo(page, /^search$/)
    await page.keyboard.press('Enter')
    await page.getByRole('region', { name: 'search' }).waitFor()
    await show(page, edge, 'changes', 'they were right')
    await tabTo(page, /^version 4$/)
    await page.keyboard.press('Enter')
    await page.getByRole('region', { name: 'Active bundle: version 4' }).waitFor()
    await tabTo(page, /^version 3$/)
    await page.keyboard.press('Enter')
    await page.getByRole('region', { name: 'Version 3', exact: true }).waitFor()
    // The focus is at the bundle now, and its command and looks come next.
    await expect.poll(() => page.evaluate('document.activeElement.className')).toContain('chosen')
    await page.keyboard.press('Tab')
    await expect.poll(() => page.evaluate('document.activeElement.value')).toContain('edge rollback --to 3')
    await tabTo(page, /^Text$/)
    await page.keyboard.press('Enter')
    const text = page.getByRole('group', { name: 'Text of version 3' })
    await text.waitFor()
    await page.keyboard.press('Tab')
    await expect.poll(() => page.evaluate('document.activeElement.ariaLabel')).toBe('Text of version 3')
    await page.keyboard.press('End')
    await expect.poll(() => page.evaluate('document.activeElement.scrollTop')).toBeGreaterThan(0)
  })
})

/** A service with two bundles, one that was refused, and a reset. */
async function eventfulService(): Promise<Edge> {
  const edge = await busyService()
  const body = { policy: 'search', rule: 'per-key', values: { 'header:x-api-key': 'acme' }, reason: 'they were right' }
  await askAdmin(edge.adminPort, 'POST', 'counters/reset', { body, actor: 'grace' })
  const policies = Array.from({ length: 30 }, (_, i) =>
    policy(`policy-${i}`, { rules: [bucketRule('per-key', ['header:x-api-key'], 5 + i)] }),
  )
  await edge.publish(JSON.stringify(bundle(4, policy('search', { rules: [] }), ...policies), undefined, 2))
  await edge.publish(JSON.stringify({ bundle_version: 9, policies: Array.from({ length: 9 }, () => ({ id: 1 })) }))
  await until(async () => JSON.stringify((await askAdmin(edge.adminPort, 'GET', 'events/recent')).json).includes('"event":"reject"'))
  return edge
}

async function show(page: Page, edge: Edge, path: string, text: string): Promise<void> {
  await page.goto(`http://127.0.0.1:${edge.adminPort}/#/${path}`)
  // The view of events reads the address only when it is opened.
  if (path.startsWith('events')) await page.reload()
  await page.getByText(text).first().waitFor()
  // Axe reads colours, which must be drawn.
  await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve))))')
}

/** What reaches beyond the right edge of the page, or scrolls sideways without saying so. */
function sideways(page: Page): Promise<readonly string[]> {
  return page.evaluate(`(() => {
    const beyond = [...document.querySelectorAll('main *')].filter((element) =>
      element.closest('.table') === null && element.getBoundingClientRect().right > innerWidth + 1)
    const silent = [...document.querySelectorAll('main .table')].filter((element) =>
      element.scrollWidth > element.clientWidth + 1 && element.nextElementSibling?.className !== 'sideways')
    return [...beyond, ...silent].map(({ tagName, className, textContent }) => tagName + '.' + className + ' ' + textContent.slice(0, 40))
  })()`)
}

async function tabTo(page: Page, name: RegExp): Promise<void> {
  for (let i = 0; i < 80; i++) {
    if (name.test(await page.evaluate('document.activeElement.textContent.trim()'))) return
    await page.keyboard.press('Tab')
  }
  expect.fail(`${name} cannot be reached with the Tab key`)
}
