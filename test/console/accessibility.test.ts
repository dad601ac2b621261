import type { BrowserContextOptions, Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN } from '../support/admin/admin-client.ts'
import { bundle } from '../support/bundles/bundles.ts'
import { findings } from '../support/console/axe.ts'
import { describeInBrowser, loggedIn, newPage } from '../support/console/browser.ts'
import { busyService } from '../support/console/busy-service.ts'
import { inEveryView } from '../support/console/every-view.ts'
import { focused, tabTo } from '../support/console/keyboard.ts'
import { running } from '../support/service/running.ts'

const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true }
const LOOKS: readonly (readonly [string, BrowserContextOptions])[] = [
  ['light', { colorScheme: 'light' }],
  ['dark', { colorScheme: 'dark' }],
  ['light, on a phone', { colorScheme: 'light', ...PHONE }],
  ['dark, on a phone', { colorScheme: 'dark', ...PHONE }],
]

describeInBrowser('the page', () => {
  test.each(LOOKS)('has nothing that axe-core objects to where nothing is known: %s', async (_look, options) => {
    const edge = await running({ env: ADMIN_ENV })
    const page = await newPage(options)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/`)
    await page.locator('input[type=password]').fill('wrong')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').waitFor()
    expect(['login', await findings(page)]).toEqual(['login', []])
    await page.locator('input[type=password]').fill(ADMIN_TOKEN)
    await page.keyboard.press('Enter')
    await inEveryView(page, async (title) => expect([title, await findings(page)]).toEqual([title, []]))
  })

  test('fits a phone: nothing but tables and the navigation scrolls sideways', async () => {
    const edge = await busyService()
    const page = await loggedIn(edge.adminPort, PHONE)
    await inEveryView(page, async (title) => {
      expect([title, await tooWide(page), await page.evaluate('document.documentElement.scrollWidth')]).toEqual([title, [], 360])
    })
  })

  test('works by keyboard alone', async () => {
    const edge = await running({ bundle: bundle(1), env: ADMIN_ENV })
    const page = await newPage()
    await page.goto(`http://127.0.0.1:${edge.adminPort}/`)
    await page.locator('input[type=password]').waitFor()
    await tabTo(page, 'Admin token')
    await page.keyboard.type(ADMIN_TOKEN)
    await tabTo(page, 'Your name')
    await page.keyboard.type('ada')
    await page.keyboard.press('Enter')
    await page.getByRole('navigation', { name: 'Views' }).waitFor()
    await tabTo(page, 'Skip to content')
    await page.keyboard.press('Enter')
    await expect.poll(() => focused(page)).toBe('Overview')
    await page.reload()
    await page.getByRole('navigation', { name: 'Views' }).waitFor()
    await tabTo(page, 'Events')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Events' }).waitFor()
    await tabTo(page, 'Filter')
    await tabTo(page, 'Pause')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Resume', pressed: true }).waitFor()
    await page.reload()
    await page.getByRole('navigation', { name: 'Views' }).waitFor()
    await tabTo(page, 'Log out')
    await page.keyboard.press('Enter')
    await page.locator('input[type=password]').waitFor()
  })

  test('shows where the focus is', async () => {
    const edge = await busyService()
    const page = await loggedIn(edge.adminPort)
    await inEveryView(page, async (title) => {
      for (let i = 0; i < 25; i++) {
        await page.keyboard.press('Tab')
        const outline = await page.evaluate(`getComputedStyle(document.activeElement).outlineStyle`)
        if ((await focused(page)) !== '') expect([title, await focused(page), outline]).not.toContain('none')
      }
    })
  })

  test('reads out nothing by itself while all is well', async () => {
    const edge = await busyService()
    const page = await loggedIn(edge.adminPort)
    await page.getByText('No problems').waitFor()
    await page.evaluate(`window.readOut = []
      for (const region of document.querySelectorAll('[role=status], [role=alert], [aria-live]'))
        new MutationObserver(() => window.readOut.push(region.textContent)).observe(region, { childList: true, subtree: true, characterData: true })`)
    for (let i = 0; i < 3; i++) await page.waitForResponse('**/admin/v1/status')
    expect(await page.evaluate('window.readOut')).toEqual([])
  })
})

/** What reaches beyond the right edge of the page. */
function tooWide(page: Page): Promise<readonly string[]> {
  return page.evaluate(`[...document.querySelectorAll('main *')]
    .filter((element) => element.closest('.table') === null && element.getBoundingClientRect().right > innerWidth + 1)
    .map(({ tagName, className, textContent }) => tagName + '.' + className + ' ' + textContent.slice(0, 40))`)
}
